"""A JoinGroup, as the machine reads it."""

from typing import Final, NamedTuple

from odradek.protocol.messages.k11_join_group import JoinGroupRequest

from ..effects import Caller, Reply
from .classic_member import ClassicMember, ClassicProtocols, Parked
from .classic_roster import Roster

REASON_SIZE_MAX: Final = 255
"""Characters of what a client gives as its reason that are kept and logged: no client of Kafka's
sends more."""

_MEMBER_ID_REQUIRED_VERSION_FIRST: Final = 4


class Joining(NamedTuple):
    """A JoinGroup, read for its version."""

    parked: Parked
    caller: Caller
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: ClassicProtocols
    reason: str
    """The client's own, for people; empty if it gave none."""

    @classmethod
    def read(cls, request: JoinGroupRequest, caller: Caller, reply: Reply) -> "Joining":
        """Take what matters out of a request."""
        session_ms = request.session_timeout_ms
        protocols: dict[str, bytes] = {}
        for protocol in request.protocols:  # should one be named twice, the first counts
            protocols.setdefault(protocol.name, protocol.metadata)
        return cls(
            Parked(caller.version, reply),
            caller,
            request.member_id,
            request.group_instance_id,
            session_ms,
            session_ms if caller.version < 1 else request.rebalance_timeout_ms,
            request.protocol_type,
            list(protocols.items()),
            f"; the client says: {request.reason[:REASON_SIZE_MAX]}" if request.reason else "",
        )

    @property
    def is_to_get_an_id(self) -> bool:
        """Whether it is given an id and shall come back with it (KIP-394): new, dynamic, v4+."""
        is_new = not self.member_id and self.instance_id is None
        return is_new and self.parked.version >= _MEMBER_ID_REQUIRED_VERSION_FIRST

    def update(self, roster: Roster, member: ClassicMember) -> None:
        """Note what the member now says of itself."""
        roster.update(member, self.protocols, self.session_timeout_ms, self.rebalance_timeout_ms)
