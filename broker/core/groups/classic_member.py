"""A member of a classic group."""

from dataclasses import dataclass
from typing import NamedTuple

from ..effects import Reply

ClassicProtocols = list[tuple[str, bytes]]
"""What a member can do, the preferred one first: names, with metadata that is the clients' own."""


class Parked(NamedTuple):
    """A request that waits for its answer, and the version to answer it in."""

    version: int
    reply: Reply


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member, and the requests of its that wait for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: ClassicProtocols
    assignment: bytes = b""
    is_new: bool = False
    """Joins for the first time: it may vanish before it knows its id, so its wait is limited."""
    join: Parked | None = None
    """The JoinGroup that waits for the next generation; set by `Roster` only, which counts them."""
    sync: Parked | None = None
    """The SyncGroup that waits for the assignment."""

    @property
    def is_waiting(self) -> bool:
        """Whether it cannot send heartbeats, as an answer of ours is due first."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str) -> bytes:
        """Its metadata for a protocol; empty if it cannot do it."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The candidate that it prefers; it can do at least one."""
        return next(name for name, _ in self.protocols if name in candidates)
