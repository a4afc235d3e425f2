"""A member of a classic group."""

from dataclasses import dataclass

from .effects import Caller, Reply

ClassicProtocols = list[tuple[str, bytes]]
"""What a member can do, the preferred one first: names, with metadata that is the clients' own."""


@dataclass(slots=True, kw_only=True)
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
    join: tuple[Caller, Reply] | None = None
    """The JoinGroup that waits for the next generation."""
    sync: tuple[Caller, Reply] | None = None
    """The SyncGroup that waits for the assignment."""

    def metadata(self, protocol: str) -> bytes | None:
        """Its metadata for a protocol; None if it cannot do it."""
        return next((data for name, data in self.protocols if name == protocol), None)
