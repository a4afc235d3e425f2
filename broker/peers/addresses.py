"""The addresses of other brokers, and the setup of connections to them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..config import Config
from ..coordination.broker_registration import SECURITY_PROTOCOLS
from ..member.metadata import MetadataCache
from ..pause import Pause
from .peer import Peer, PeerFailed, Setup
from .security import Securities, Security
from .versions import BY_PROTOCOL_VERSION

if TYPE_CHECKING:
    from ..network.network import Link

LinkTo = Callable[[int], "Link"]
"""The link from this broker to the one with this id."""


class PeerAddress(NamedTuple):
    """Where another broker listens for brokers, and how to connect."""

    broker_id: int
    host: str
    port: int
    security: Security


class Peers:
    """The brokers in the metadata, by their addresses on the listeners for brokers."""

    def __init__(
        self,
        config: Config,
        metadata: MetadataCache,
        securities: Securities,
        pause: Pause | None = None,
        link_to: LinkTo | None = None,
    ) -> None:
        """`pause`: while it is on, nothing is sent to other brokers.  `link_to`: in tests, the
        links by which they are reached."""
        self._metadata = metadata
        self._securities = securities
        self._pause = pause
        self._link_to = link_to
        self._listeners = config.broker_listeners
        self.versions = BY_PROTOCOL_VERSION[config.inter_broker_protocol_version]
        self._setup = Setup(
            timeout_ms=config.socket_connection_setup_timeout_ms,
            timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
        )

    def address(self, broker_id: int) -> PeerAddress:
        """A live broker's address on the inter-broker listener.  Raises: PeerFailed."""
        return self._address(broker_id, self._listeners.inter_broker)

    def controller_address(self, broker_id: int) -> PeerAddress:
        """A live broker's address as the controller.  Raises: PeerFailed."""
        return self._address(broker_id, self._listeners.of_controller)

    def open(
        self, address: PeerAddress, *, client_id: str, timeout_ms: int, negotiates: bool = False
    ) -> Peer:
        """Create a `Peer`, which the caller closes."""
        return Peer(
            address.host,
            address.port,
            client_id=client_id,
            timeout_ms=timeout_ms,
            setup=self._setup,
            security=address.security,
            negotiates=negotiates,
            pause=self._pause,
            link=None if self._link_to is None else self._link_to(address.broker_id),
        )

    def _address(self, broker_id: int, listener_name: str) -> PeerAddress:
        broker = self._metadata.brokers.get(broker_id)
        if broker is None:
            raise PeerFailed(f"broker {broker_id} is not known to be alive")
        address = broker.endpoints.get(listener_name)
        if address is None:
            raise PeerFailed(f"broker {broker_id} has no listener {listener_name}")
        security = self._securities[listener_name]
        why_not = security.why_not(listener_name, _protocol(address.security_protocol))
        if why_not is not None:
            raise PeerFailed(f"broker {broker_id} can't be spoken with: {why_not}")
        return PeerAddress(broker_id, address.host, address.port, security)


def _protocol(number: int) -> str:
    """The name of a security protocol by its number in UpdateMetadata."""
    known = 0 <= number < len(SECURITY_PROTOCOLS)
    return SECURITY_PROTOCOLS[number] if known else f"an unknown protocol ({number})"
