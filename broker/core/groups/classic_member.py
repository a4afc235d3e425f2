"""A member of a classic group."""

from dataclasses import dataclass
from typing import NamedTuple

from ..effects import Reply

ClassicProtocols = list[tuple[str, bytes]]
"""The protocols a member supports, preferred ones first: names, with the client's metadata."""


class Parked(NamedTuple):
    """A request that waits for its response, and the version of that response."""

    version: int
    reply: Reply


@dataclass(slots=True, kw_only=True, eq=False)
class ClassicMember:
    """A member, with its requests that wait for a response."""

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
    """The JoinGroup that waits for the next generation; only `Roster` sets it, to count them."""
    sync: Parked | None = None
    """The SyncGroup that waits for the assignment."""

    @property
    def is_waiting(self) -> bool:
        """Whether a response to the member is due, so that it can't send heartbeats."""
        return self.join is not None or self.sync is not None

    def metadata(self, protocol: str) -> bytes:
        """The member's metadata for a protocol; empty if it does not support it."""
        return next((data for name, data in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The candidate that the member prefers; it must support at least one."""
        return next(name for name, _ in self.protocols if name in candidates)
