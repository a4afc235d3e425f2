"""What a fixture's brokers need to be reached over TLS, and what their clients need."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from odradek.client_configs import OPEN

from .errors import BrokerFailed

HOST: Final = "127.0.0.1"


class Security:
    """Certificates for the brokers of one fixture; `prepare` makes them."""

    def __init__(self, *, tls: bool) -> None:
        self._tls = tls
        self.settings: dict[str, str] = {}
        """The settings of the brokers."""
        self.access = OPEN
        """How clients, and the fixture itself, reach the brokers."""

    @property
    def protocol(self) -> str:
        """The security protocol of the brokers' listener."""
        return self.access.protocol

    def prepare(self, directory: Path) -> None:
        """Make what is wanted, in this directory.  Raises: BrokerFailed."""
        if not self._tls or self.settings:
            return
        from odradek.broker.settings.declaration import ConfigError

        try:
            from odradek.broker.secure.authority import Authority  # only where TLS is used
        except ConfigError as error:
            raise BrokerFailed(str(error)) from None
        now = datetime.now(UTC)
        authority = Authority.make("Odradek test authority", now)
        broker = authority.issue("broker", [HOST, "localhost"], now)
        trusted, store = directory / "authority.pem", directory / "broker.pem"
        trusted.write_bytes(authority.pem.certificate)
        store.touch(0o600)
        store.write_bytes(broker.store)
        self.settings = {"ssl.keystore.location": str(store)}
        self.access = OPEN._replace(authority=str(trusted))
