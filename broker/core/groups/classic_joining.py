"""A JoinGroup request, decoded for the state machines of groups."""

from typing import Final, NamedTuple

from odradek.protocol.messages.k11_join_group import JoinGroupRequest

from ..effects import Caller, Reply
from .classic_member import ClassicMember, ClassicProtocols, Parked
from .classic_roster import Roster

REASON_SIZE_MAX: Final = 255
"""How many characters of a client's reason are kept and logged; Kafka's clients send no more."""

_MEMBER_ID_REQUIRED_VERSION_FIRST: Final = 4


class Joining(NamedTuple):
    """A JoinGroup request, with the differences between its versions removed."""

    parked: Parked
    caller: Caller
    member_id: str
    instance_id: str | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: ClassicProtocols
    reason: str
    """The client's reason, as text for the journal; empty if it gave none."""

    @classmethod
    def read(cls, request: JoinGroupRequest, caller: Caller, reply: Reply) -> "Joining":
        """Decode a request."""
        session_ms = request.session_timeout_ms
        protocols: dict[str, bytes] = {}
        for protocol in request.protocols:  # if one is named twice, the first counts
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
        """Whether the member must join again with an id it gets (KIP-394): new, dynamic, v4+."""
        is_new = not self.member_id and self.instance_id is None
        return is_new and self.parked.version >= _MEMBER_ID_REQUIRED_VERSION_FIRST

    def update(self, roster: Roster, member: ClassicMember) -> None:
        """Update the member's protocols and timeouts from this request."""
        roster.update(member, self.protocols, self.session_timeout_ms, self.rebalance_timeout_ms)
