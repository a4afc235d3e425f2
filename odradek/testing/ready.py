"""What a broker, or a cluster of them, reports once it serves."""

from dataclasses import dataclass

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The brokers' addresses, and how long the start took."""

    addresses: dict[int, Address]
    """By broker id, in order."""
    startup_ms: int
