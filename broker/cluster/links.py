"""The controller's links: direct calls to its own broker, connections to the others."""

from odradek.protocol.schema import Message

from ..config import Config
from ..coordination.interface import CoordinationError
from ..core.controller.context import LiveBroker
from ..net.call import CloseConnection
from ..pause import Pause
from ..peers.addresses import LinkTo
from ..peers.own import AskSelf
from ..peers.peer import Peer, PeerFailed, Setup
from ..peers.security import Securities
from .channels import ControlLink


class NoListener(PeerFailed):
    """The broker has no listener that the controller could use."""


class OwnLink:
    """The link to the broker in whose process the controller runs."""

    def __init__(self, ask_self: AskSelf) -> None:
        self._ask_self = ask_self

    async def ask(self, request: Message, version: int) -> Message:
        """Call the broker's handler and return its answer.  Raises: PeerFailed."""
        try:
            return await self._ask_self(request, version)
        except (CloseConnection, CoordinationError) as error:
            raise PeerFailed(str(error)) from error

    def close(self) -> None:
        """Nothing is open."""


class UnreachableLink:
    """The link to a broker without a usable listener."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def ask(self, request: Message, version: int) -> Message:
        """Raises: NoListener, always."""
        raise NoListener(self._reason)

    def close(self) -> None:
        """Nothing is open."""


class BrokerLinks:
    """Creates the link to each broker, on the control plane listener; a `Links`."""

    def __init__(
        self,
        broker_id: int,
        config: Config,
        ask_self: AskSelf,
        securities: Securities,
        pause: Pause | None = None,
        link_to: LinkTo | None = None,
    ) -> None:
        """`pause`: while it is on, nothing is sent to other brokers.  `link_to`: in tests, the
        links by which they are reached."""
        self._broker_id = broker_id
        self._config = config
        self._securities = securities
        self._ask_self = ask_self
        self._pause = pause
        self._link_to = link_to

    def __call__(self, broker: LiveBroker) -> ControlLink:
        """Create the link to a broker."""
        config = self._config
        listener_name = config.broker_listeners.of_controller
        if broker.broker_id == self._broker_id:
            return OwnLink(self._ask_self)
        for endpoint in broker.endpoints:
            if endpoint.listener_name == listener_name:
                security = self._securities[listener_name]
                why_not = security.why_not(listener_name, endpoint.security_protocol)
                if why_not is not None:
                    return UnreachableLink(why_not)
                return Peer(
                    endpoint.host,
                    endpoint.port,
                    client_id=str(self._broker_id),
                    timeout_ms=config.controller_socket_timeout_ms,
                    setup=Setup(
                        timeout_ms=config.socket_connection_setup_timeout_ms,
                        timeout_max_ms=config.socket_connection_setup_timeout_max_ms,
                    ),
                    security=security,
                    pause=self._pause,
                    link=None if self._link_to is None else self._link_to(broker.broker_id),
                )
        return UnreachableLink(f"it has no listener {listener_name}")
