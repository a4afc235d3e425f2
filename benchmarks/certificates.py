"""Certificates for listeners with TLS: the same for both brokers, of an authority of the run."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Self

from odradek.secure.authority import Authority

HOST: Final = "127.0.0.1"


class Certificates(NamedTuple):
    """Files in PEM, which both brokers and their clients can read."""

    store: Path
    """The brokers' key and certificate."""
    authority: Path

    @classmethod
    def make(cls, directory: Path) -> Self:
        """Make them."""
        now = datetime.now(UTC)
        authority = Authority.make("Odradek benchmarks", now)
        made = cls(directory / "broker.pem", directory / "authority.pem")
        made.store.write_bytes(authority.issue("broker", [HOST], now).store)
        made.authority.write_bytes(authority.pem.certificate)
        return made

    def broker_settings(self) -> dict[str, str]:
        """The settings of a listener, for both brokers."""
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(self.store)}

    def client_properties(self) -> tuple[str, ...]:
        """The properties of Java's clients."""
        return (
            "security.protocol=SSL",
            "ssl.truststore.type=PEM",
            f"ssl.truststore.location={self.authority}",
        )
