"""What a broker, or a cluster of them, tells once it serves."""

from dataclasses import dataclass

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Who listens where, and how long it took from the start of the process."""

    addresses: dict[int, Address]
    """By broker id, in order."""
    startup_ms: int
