"""What a broker, or a cluster of them, reports once it serves."""

from collections.abc import Sequence
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
