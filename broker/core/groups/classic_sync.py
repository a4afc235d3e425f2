"""SyncGroup and Heartbeat: the leader assigns, members get assignments and stay in the group."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.messages.k14_sync_group import SyncGroupRequest

from ..effects import Effect
from .classic_answers import sync_refused
from .classic_member import ClassicMember, Parked
from .classic_rebalance import drop_assignments, prepare
from .classic_state import ClassicState, Phase

if TYPE_CHECKING:
    from .classic import ClassicGroup

logger = logging.getLogger(__name__)

_PROTOCOL_NAMED_VERSION_FIRST: Final = 5


def lacks_protocol(request: SyncGroupRequest, version: int) -> bool:
    """Whether a SyncGroup lacks the protocol type or name, which are required in v5+."""
    named = request.protocol_type is not None and request.protocol_name is not None
    return version >= _PROTOCOL_NAMED_VERSION_FIRST and not named


def check_generation(
    group: "ClassicGroup", member_id: str, instance_id: str | None, generation_id: int
) -> ErrorCode:
    """Check that a client is a member of the current generation: NONE, or the error."""
    if group.state is ClassicState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    code = group.check_member(member_id, instance_id)
    if code is ErrorCode.NONE and generation_id != group.generation_id:
        return ErrorCode.ILLEGAL_GENERATION
    return code


def heartbeat(group: "ClassicGroup", request: HeartbeatRequest) -> ErrorCode:
    """Keep a member's session alive; REBALANCE_IN_PROGRESS if it must join again."""
    code = check_generation(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    if code is not ErrorCode.NONE:
        return code
    group.restart_session(group.roster.members[request.member_id])
    preparing = group.state is ClassicState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if preparing else ErrorCode.NONE


def sync(group: "ClassicGroup", request: SyncGroupRequest, parked: Parked) -> None:
    """Answer a SyncGroup, or park it until the leader's assignment is written."""
    code = _check(group, request, parked.version)
    if code is not ErrorCode.NONE:
        group.answer_sync(parked, sync_refused(code))
        return
    member = group.roster.members[request.member_id]
    group.roster.unsynced.discard(member.member_id)
    if not group.roster.unsynced:
        group.deadlines.clear(Phase.SYNC)
    if group.state is ClassicState.STABLE:
        group.answer_sync(parked, group.synced(member))
        group.restart_session(member)
        return
    group.park_sync(member, parked)
    if member.member_id == group.roster.leader_id:
        _assign(group, request, member)


def _check(group: "ClassicGroup", request: SyncGroupRequest, version: int) -> ErrorCode:
    if lacks_protocol(request, version):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    code = check_generation(
        group, request.member_id, request.group_instance_id, request.generation_id
    )
    if code is not ErrorCode.NONE:
        return code
    if request.protocol_type not in (None, group.protocol_type):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name not in (None, group.protocol_name):
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _assign(group: "ClassicGroup", request: SyncGroupRequest, leader: ClassicMember) -> None:
    given = {each.member_id: each.assignment for each in request.assignments}
    assignments = {member_id: given.get(member_id, b"") for member_id in group.roster.members}
    without = [member_id for member_id, assignment in assignments.items() if not assignment]
    if without:
        logger.info("empty assignment group=%s members=%s", group.group_id, without)
    group.store(assignments, _after_assigning(group, assignments, leader.member_id))


def _after_assigning(
    group: "ClassicGroup", assignments: dict[str, bytes], leader_id: str
) -> Callable[[ErrorCode], list[Effect]]:
    generation_id = group.generation_id

    def stored(code: ErrorCode) -> list[Effect]:
        completing = group.state is ClassicState.COMPLETING_REBALANCE
        if not completing or group.generation_id != generation_id:
            return []  # another rebalance began meanwhile
        if code is not ErrorCode.NONE:
            logger.warning("assignment not written group=%s code=%s", group.group_id, code.name)
            drop_assignments(group, code)
            prepare(group, f"the assignment was not stored: {code.name}")
        else:
            for member in group.roster:
                member.assignment = assignments[member.member_id]
            group.finish_syncs(ErrorCode.NONE)
            group.transition(ClassicState.STABLE)
            sizes = ", ".join(f"{key} {len(value)} bytes" for key, value in assignments.items())
            group.journal.note("assigned", f"generation {generation_id}: {sizes}", leader_id)
        return group.take_effects()

    return stored
