"""What a broker tells once it serves."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """Where it listens, who it is, and how long it took from the start of its process."""

    host: str
    port: int
    broker_id: int
    startup_ms: int
