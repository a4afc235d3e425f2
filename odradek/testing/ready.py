"""What a broker, or a cluster of them, is started with, and what it reports once it serves."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

HOST: Final = "127.0.0.1"
Address = tuple[str, int]
"""Host and port."""


class Start(NamedTuple):
    """With what brokers are started."""

    data_dir: Path
    settings: Mapping[str, str]
    ports: Sequence[int] = ()
    """One for each broker; without them, free ones."""
    admin_ports: Sequence[int] = ()
    """One for each process."""
    protocol: str = "PLAINTEXT"

    @property
    def first_port(self) -> int:
        """That of the first broker; 0 for a free one."""
        return self.ports[0] if self.ports else 0

    def of_process(self, *, port: int) -> dict[str, str]:
        """The settings of a process that listens on this port, and has the first admin port."""
        return {
            **self.settings,
            "listeners": f"{self.protocol}://{HOST}:{port}",
            "odradek.admin.listener": f"{HOST}:{self.admin_ports[0] if self.admin_ports else 0}",
        }


class Ready(NamedTuple):
    """The brokers' addresses, and how long the start took."""

    addresses: dict[int, Address]
    """By broker id, in order."""
    startup_ms: int


def check_broker(broker_id: int, known: Collection[int]) -> None:
    """Check that there is a broker with this id.  Raises: ValueError."""
    if broker_id not in known or isinstance(broker_id, bool):
        raise ValueError(
            f"there is no broker {broker_id!r}: there are {', '.join(map(str, known))}"
        )
