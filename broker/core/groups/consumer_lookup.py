"""Finding the member of a heartbeat, and checking its member id, instance id and epoch."""

from collections.abc import Callable
from dataclasses import replace

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k68_consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

from .consumer_member import JOIN_EPOCH, LEAVE_STATIC_EPOCH, ConsumerMember
from .consumer_reconcile import Owned
from .consumer_request import owned_by
from .consumer_state import Draft, GroupState
from .consumer_steps import replace_member
from .settings import ConsumerSettings


def check_size(state: GroupState, settings: ConsumerSettings, member_id: str) -> None:
    """Check that the group has room for a member.  Raises: Refused (GROUP_MAX_SIZE_REACHED)."""
    size_max = settings.group_size_max
    if len(state.members) >= size_max and member_id not in state.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {size_max} members already."
        )


def member_of(
    draft: Draft, request: ConsumerGroupHeartbeatRequest, new_member_id: Callable[[], str]
) -> ConsumerMember:
    """The member that sends a heartbeat, in its state before it.

    A static member may replace an earlier one, which adds records to the draft.
    Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
    UNRELEASED_INSTANCE_ID).
    """
    if request.instance_id is None:
        member = draft.state.members.get(request.member_id)
        if member is not None:
            check_epoch(member, request.member_epoch, owned_by(request))
            return member
        if request.member_epoch != JOIN_EPOCH:
            raise unknown_member(draft.state, request.member_id)
    elif request.member_epoch != JOIN_EPOCH:
        member = static_member(draft.state, request.instance_id, request.member_id)
        check_epoch(member, request.member_epoch, owned_by(request))
        return member
    return _joining(draft, request.instance_id, request.member_id or new_member_id())


def _joining(draft: Draft, instance_id: str | None, member_id: str) -> ConsumerMember:
    held = draft.state.static_member(instance_id)
    if held is None:
        known = draft.state.members.get(member_id)
        what = "new member" if known is None else "joined again"
        static = "" if instance_id is None else f" as instance {instance_id}"
        draft.note("joined", f"{what}{static}", member_id)
        return known or ConsumerMember(member_id=member_id)
    if held.classic is None and held.member_epoch != LEAVE_STATIC_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Instance id {instance_id} is in use by {held.member_id}.",
        )
    new = replace(
        held, member_id=member_id, member_epoch=JOIN_EPOCH, previous_member_epoch=JOIN_EPOCH
    )
    replace_member(draft, held, new)
    draft.note("joined", f"again as {instance_id}, in place of {held.member_id}", member_id)
    return new


def leaving_member(state: GroupState, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """The member that leaves.  Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
    if request.instance_id is not None:
        return static_member(state, request.instance_id, request.member_id)
    member = state.members.get(request.member_id)
    if member is None:
        raise unknown_member(state, request.member_id)
    return member


def static_member(state: GroupState, instance_id: str, member_id: str) -> ConsumerMember:
    """The member with an instance id, which must have this member id.

    Raises: Refused (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID).
    """
    member = state.static_member(instance_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Nobody has the instance id {instance_id}.")
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Instance id {instance_id} belongs to {member.member_id} now.",
        )
    return member


def unknown_member(state: GroupState, member_id: str) -> Refused:
    """The error for an unknown member."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is not a member of {state.group_id}.")


def check_epoch(member: ConsumerMember, epoch: int, owned: Owned | None) -> None:
    """Accept epoch 0, the member's epoch, or the previous one if the response was lost.

    Raises: Refused (FENCED_MEMBER_EPOCH).
    """
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    lost_answer = (
        epoch == member.previous_member_epoch
        and epoch < member.member_epoch
        and owned is not None
        and all(partition in member.assigned.get(topic_id, {}) for topic_id, partition in owned)
    )
    if not lost_answer:
        raise Refused(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"Epoch {epoch} is not the member's, which is {member.member_epoch}; it must give up "
            "its partitions and join again.",
        )
