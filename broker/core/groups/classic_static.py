"""The return of a static member, which gets a new member id.

If the group is Stable and would select the same protocol, the others do not notice: the record is
written with the new id, and then the member gets the current generation as its response. Otherwise
a rebalance begins, or is already under way.
"""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode

from ..effects import Effect
from .classic_answers import join_refused, protocol_name_of
from .classic_joining import Joining
from .classic_member import ClassicMember, ClassicProtocols
from .classic_rebalance import prepare
from .classic_state import ClassicState

if TYPE_CHECKING:
    from .classic import ClassicGroup

logger = logging.getLogger(__name__)

_SKIP_ASSIGNMENT_VERSION_FIRST: Final = 9


def replace(group: "ClassicGroup", joining: Joining, member: ClassicMember, new_id: str) -> None:
    """Give the member its new id; requests parked under the old one are fenced."""
    former = Former(
        member.member_id,
        group.roster.leader_id or "",
        group.generation_id,
        (member.protocols, member.session_timeout_ms, member.rebalance_timeout_ms),
    )
    group.refuse_parked(member, ErrorCode.FENCED_INSTANCE_ID, member_id=former.member_id)
    _rename(group, member, new_id)
    joining.update(group.roster, member)
    group.park_join(member, joining.parked)
    came_back = f"instance {member.instance_id} came back as {new_id}{joining.reason}"
    group.journal.note("fenced", came_back, former.member_id)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        prepare(group, came_back)  # the leader may be about to assign to the old id
    elif group.state is ClassicState.STABLE:
        if group.roster.select_protocol() == group.protocol_name:
            _store(group, joining, member, former)
        else:
            prepare(group, f"{came_back} and prefers another protocol")


class Former(NamedTuple):
    """The situation before a static member came back."""

    member_id: str
    leader_id: str
    generation_id: int
    said: tuple[ClassicProtocols, int, int]
    """Protocols, session timeout, rebalance timeout."""


def _rename(group: "ClassicGroup", member: ClassicMember, member_id: str) -> None:
    group.deadlines.clear(member.member_id)
    group.roster.rename(member, member_id)
    group.restart_session(member)


def _store(group: "ClassicGroup", joining: Joining, member: ClassicMember, former: Former) -> None:
    def stored(code: ErrorCode) -> list[Effect]:
        if member.join is not joining.parked:
            return []  # already answered by a rebalance, or fenced by yet another return
        is_same = group.state is ClassicState.STABLE and group.generation_id == former.generation_id
        if code is not ErrorCode.NONE:
            _undo(group, joining, member, former, code)
            if is_same:  # otherwise new members may support only the protocols it has now
                group.roster.update(member, *former.said)
                # A record written meanwhile may hold the id that is undone here: write again.
                _store_all(group, lambda _code: [])
        elif is_same:
            _answer(group, joining, member, former)
        return group.take_effects()

    _store_all(group, stored)


def _store_all(group: "ClassicGroup", then: Callable[[ErrorCode], list[Effect]]) -> None:
    group.store({each.member_id: each.assignment for each in group.roster}, then)


def _answer(group: "ClassicGroup", joining: Joining, member: ClassicMember, former: Former) -> None:
    parked = joining.parked
    group.roster.take_join(member)
    group.restart_session(member)
    if parked.version >= _SKIP_ASSIGNMENT_VERSION_FIRST:
        leads = member.member_id == group.roster.leader_id
        response = group.joined(parked, member.member_id, skip=leads)
    else:
        # Before v9 a leader can't be told to skip the assignment, which a Stable group would
        # ignore. So the response names the former leader id, and the member acts as a follower.
        response = group.joined(parked, member.member_id, leader=former.leader_id)
    group.answer_join(parked, response)


def _undo(
    group: "ClassicGroup", joining: Joining, member: ClassicMember, former: Former, code: ErrorCode
) -> None:
    parked = joining.parked
    logger.warning("static member not written group=%s code=%s", group.group_id, code.name)
    group.journal.note("not-stored", f"its return was not stored: {code.name}", member.member_id)
    group.roster.take_join(member)
    _rename(group, member, former.member_id)
    response = join_refused(parked.version, code)
    response.generation_id = group.generation_id
    response.protocol_type = group.protocol_type
    response.protocol_name = protocol_name_of(parked.version, group.protocol_name)
    response.leader = former.leader_id
    group.answer_join(parked, response)
