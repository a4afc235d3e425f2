"""What a broker, or a cluster of them, reports once it serves."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

ADMIN_LISTENER: Final = "odradek.admin.listener"
Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The brokers' addresses, and how long the start took."""

    addresses: dict[int, Address]
    """By broker id, in order."""
    startup_ms: int


def admin_listener(ports: Sequence[int]) -> str:
    """The setting with the first of these ports, or with any free one."""
    return f"127.0.0.1:{ports[0] if ports else 0}"


def check_broker(broker_id: int, known: Collection[int]) -> None:
    """Check that there is a broker with this id.  Raises: ValueError."""
    if broker_id not in known or isinstance(broker_id, bool):
        raise ValueError(
            f"there is no broker {broker_id!r}: there are {', '.join(map(str, known))}"
        )
