"""How clients reach the brokers of a fixture."""

from typing import TYPE_CHECKING, Protocol

from odradek.client_configs import ClientConfig, ClientName

if TYPE_CHECKING:
    import ssl

    from odradek.broker.sasl.client import ClientMechanism


class ClientAccess(Protocol):
    """What a listener wants of its clients: TLS, a login, both, or nothing."""

    @property
    def mechanism(self) -> str | None:
        """How clients log in; None: they need not."""
        ...

    def tls_context(self) -> "ssl.SSLContext | None":
        """How Python speaks TLS; None: not at all."""
        ...

    def begin_login(self) -> "ClientMechanism":
        """Begin a login, if there is a mechanism.  Raises: ServerRefused."""
        ...

    def config(self, client: ClientName, bootstrap_servers: str) -> ClientConfig:
        """The configuration of a client.  Raises: ValueError."""
        ...
