"""Incremental reconciliation (KIP-848): the next step of one member towards its target.

STABLE                 owns its target of its epoch; leaves the state when the target is newer.
UNREVOKED_PARTITIONS   was told to revoke partitions; keeps its epoch until a heartbeat lists the
                       owned partitions and the revoked ones are not among them.
UNRELEASED_PARTITIONS  is in the target's epoch and waits for partitions of other members, which it
                       gets one by one as they are released.

A partition is assigned only if no member owns it, including members that have yet to revoke it. So
two members never own the same partition.

Source: behaviour of CurrentAssignmentBuilder in Apache Kafka 4.3.1.
"""

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, replace

from odradek.protocol.errors import ErrorCode, Refused

from .consumer_member import ByEpoch, ConsumerMember, MemberState, Partitions

Owned = Set[tuple[bytes, int]]
"""Partitions that a member reports as owned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A member's target, and what limits the step towards it."""

    epoch: int
    partitions: Partitions
    topic_ids: Set[bytes]
    """The topics that the member subscribes to now; the target may be older."""
    is_owned: Callable[[bytes, int], bool]
    """Whether any member owns a partition."""
    owned: Owned | None
    """The partitions that the member reports as owned; None: it did not report them."""
    subscription_changed: bool = False


def reconcile(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """The member after its next step, or the same member if it must wait.

    Raises: Refused (FENCED_MEMBER_EPOCH, for a member in a state that a newer broker wrote).
    """
    match member.state:
        case MemberState.STABLE:
            if member.member_epoch == goal.epoch:
                return _follow_subscription(member, goal)
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(goal.owned, member.pending_revocation):
                return _follow_subscription(member, goal)
        case MemberState.UNRELEASED_PARTITIONS:
            pass
        case MemberState.UNKNOWN:
            if goal.owned is None or goal.owned:
                raise Refused(
                    ErrorCode.FENCED_MEMBER_EPOCH,
                    "The member is in a state of a newer broker; it must give up its partitions "
                    "and join again.",
                )
            member = replace(member, member_epoch=goal.epoch)
    return _next_step(member, goal)


def _follow_subscription(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    """Revoke the partitions of topics that the member no longer subscribes to."""
    gone = {topic_id for topic_id in member.assigned if topic_id not in goal.topic_ids}
    if not goal.subscription_changed or not gone:
        return member
    assigned = {
        topic_id: epochs for topic_id, epochs in member.assigned.items() if topic_id not in gone
    }
    pending: dict[bytes, Mapping[int, int]] = dict(member.pending_revocation)
    for topic_id in gone:
        pending[topic_id] = {**pending.get(topic_id, {}), **member.assigned[topic_id]}
    moved = member.moved_to(member.member_epoch)
    if not _still_owns(goal.owned, pending):
        return replace(moved, assigned=assigned)
    return replace(
        moved,
        state=MemberState.UNREVOKED_PARTITIONS,
        assigned=assigned,
        pending_revocation=pending,
    )


def _next_step(member: ConsumerMember, goal: Goal) -> ConsumerMember:
    kept: dict[bytes, dict[int, int]] = {}
    pending: dict[bytes, dict[int, int]] = {}
    granted: dict[bytes, list[int]] = {}
    waits = False
    for topic_id in sorted({*goal.partitions, *member.assigned}):
        target: Set[int] = frozenset()
        if topic_id in goal.topic_ids:
            target = goal.partitions.get(topic_id, target)
        current = member.assigned.get(topic_id, {})
        own_pending = member.pending_revocation.get(topic_id, {})
        _put(kept, topic_id, {p: epoch for p, epoch in current.items() if p in target})
        _put(pending, topic_id, {p: epoch for p, epoch in current.items() if p not in target})
        missing = sorted(target - current.keys())
        # Partitions that the member itself had yet to revoke are free for it.
        free = [p for p in missing if p in own_pending or not goal.is_owned(topic_id, p)]
        waits = waits or len(free) < len(missing)
        if free:
            granted[topic_id] = free
    if pending and _still_owns(goal.owned, pending):
        return replace(
            member.moved_to(member.member_epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            pending_revocation=pending,
        )
    for topic_id, partitions in granted.items():
        kept.setdefault(topic_id, {}).update(dict.fromkeys(partitions, goal.epoch))
    return replace(
        member.moved_to(goal.epoch),
        state=MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE,
        assigned=kept,
        pending_revocation={},
    )


def _put(found: dict[bytes, dict[int, int]], topic_id: bytes, epochs: dict[int, int]) -> None:
    if epochs:
        found[topic_id] = epochs


def _still_owns(owned: Owned | None, pending: ByEpoch) -> bool:
    """Whether the member still owns partitions to revoke; if it does not report, it does."""
    if owned is None:
        return True
    return any(
        (topic_id, partition) in owned
        for topic_id, epochs in pending.items()
        for partition in epochs
    )
