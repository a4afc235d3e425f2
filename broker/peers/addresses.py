"""The addresses of other brokers, and the setup of connections to them."""

from typing import Final

from ..config import Config
from ..member.metadata import Address, MetadataCache
from .peer import Peer, PeerFailed, Setup
from .versions import BY_PROTOCOL_VERSION

PLAINTEXT: Final = 0
"""The number of the security protocol in UpdateMetadata."""


class Peers:
    """The brokers in the metadata, by their addresses on the listeners for brokers."""

    def __init__(self, config: Config, metadata: MetadataCache) -> None:
        self._metadata = metadata
        self._listeners = config.broker_listeners
        self.versions = BY_PROTOCOL_VERSION[config.inter_broker_protocol_version]
        self._setup = Setup(
            timeout_ms=config.socket_connection_setup_timeout_ms,
            timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        )

    def address(self, broker_id: int) -> Address:
        """A live broker's address on the inter-broker listener.  Raises: PeerFailed."""
        return self._address(broker_id, self._listeners.inter_broker)

    def controller_address(self, broker_id: int) -> Address:
        """A live broker's address as the controller.  Raises: PeerFailed."""
        return self._address(broker_id, self._listeners.of_controller)

    def open(
        self, address: Address, *, client_id: str, timeout_ms: int, negotiates: bool = False
    ) -> Peer:
        """Create a `Peer`, which the caller closes."""
        return Peer(
            address.host,
            address.port,
            client_id=client_id,
            timeout_ms=timeout_ms,
            setup=self._setup,
            negotiates=negotiates,
        )

    def _address(self, broker_id: int, listener_name: str) -> Address:
        broker = self._metadata.brokers.get(broker_id)
        if broker is None:
            raise PeerFailed(f"broker {broker_id} is not known to be alive")
        address = broker.endpoints.get(listener_name)
        if address is None:
            raise PeerFailed(f"broker {broker_id} has no listener {listener_name}")
        if address.security_protocol != PLAINTEXT:
            raise PeerFailed(
                f"broker {broker_id} does not speak PLAINTEXT on its listener {listener_name}, and "
                "nothing else is built between brokers"
            )
        return address
