"""Moves partitions to other replicas (KIP-455).

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging
from collections.abc import Collection, Iterable, Mapping

from odradek.protocol.errors import ErrorCode, Refused

from ..partition_state import TopicPartition
from .context import Context
from .effects import Procedure, ReplicaAssignment
from .reassignment_requests import drop_requests
from .reassignment_steps import NotMovable, advance, is_complete

logger = logging.getLogger(__name__)

Reassigned = dict[TopicPartition, Refused | None]


def reassign(
    context: Context, asked: Mapping[TopicPartition, tuple[int, ...] | None]
) -> Procedure[Reassigned]:
    """Begin reassignments, replace ones under way, or (None) cancel them."""
    results: Reassigned = {}
    begun: dict[TopicPartition, ReplicaAssignment] = {}
    for key, target in asked.items():
        refused = None if target is None else _check(context, key, target)
        assignment = _plan(context, key, target)
        if refused is not None:
            results[key] = refused
        elif assignment is None:
            results[key] = Refused(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        else:
            begun[key] = assignment
    yield from drop_requests(context, lambda key, replicas: key in begun)
    results.update((yield from _begin(context, begun)))
    return results


def reassignments_requested(
    context: Context, requests: Mapping[TopicPartition, tuple[int, ...]]
) -> Procedure[Collection[TopicPartition]]:
    """A client has written /admin/reassign_partitions.  Returns the reassignments begun.

    Those under way with the same target continue: the controller itself rewrites the znode, and
    reads it again, when one of several reassignments completes.
    """
    context.reassignment_requests = dict(requests)
    now = {key: context.assignment(key) for key in requests}
    results = yield from _begin(
        context,
        {
            key: now[key].reassign_to(target)
            for key, target in requests.items()
            if not (now[key].is_being_reassigned and now[key].target == target)
        },
    )
    failed = {key for key, refused in results.items() if refused is not None}
    if failed:
        logger.warning("reassignments refused partitions=%s", sorted(failed))
        yield from drop_requests(context, lambda key, replicas: key in failed)
    return [key for key in results if key not in failed]


def resume_reassignments(context: Context, partitions: Iterable[TopicPartition]) -> Procedure[None]:
    """Advance reassignments that may have been waiting."""
    for key in partitions:
        if key in context.reassigning:
            yield from _try(context, key, context.assignment(key))


def complete_reassignments(
    context: Context, partitions: Iterable[TopicPartition]
) -> Procedure[None]:
    """Complete the reassignments whose target replicas are all in sync."""
    for key in partitions:
        if key in context.reassigning:
            assignment = context.assignment(key)
            if (yield from is_complete(key, assignment)):
                yield from _try(context, key, assignment)


def _check(context: Context, key: TopicPartition, target: tuple[int, ...]) -> Refused | None:
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not target:
        return Refused(code, "there are no replicas to move to")
    if len(set(target)) < len(target):
        return Refused(code, f"a replica occurs twice in {list(target)}")
    if min(target) < 0:
        return Refused(code, f"there is no broker below 0, as in {list(target)}")
    adding = context.assignment(key).reassign_to(target).adding
    if not context.live.issuperset(adding):
        return Refused(code, f"not all of the brokers {list(adding)} are alive")
    return None


def _plan(
    context: Context, key: TopicPartition, target: tuple[int, ...] | None
) -> ReplicaAssignment | None:
    """The assignment on the way to the target, or (None) back; None: there is nothing to cancel."""
    now = context.assignment(key)
    if target is not None:
        return now.reassign_to(target)
    return now.reassign_to(now.origin) if now.is_being_reassigned else None


def _begin(
    context: Context, assignments: Mapping[TopicPartition, ReplicaAssignment]
) -> Procedure[Reassigned]:
    results: Reassigned = {}
    for key, assignment in assignments.items():
        if context.is_to_be_deleted(key[0]) or not context.assignment(key).replicas:
            results[key] = Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such partition"
            )
        elif key not in context.states:  # Kafka answers the same, but writes the new replicas first
            results[key] = Refused(
                ErrorCode.UNKNOWN_SERVER_ERROR, "the partition never had a leader"
            )
        elif _loses_all(context, key, assignment):
            results[key] = Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no replica that would be left is in sync"
            )
        else:
            results[key] = yield from _try(context, key, assignment)
    return results


def _loses_all(context: Context, key: TopicPartition, assignment: ReplicaAssignment) -> bool:
    """Whether all in-sync replicas would be deleted, as Kafka does in ZooKeeper mode.

    This happens if only replicas that were being added are still in sync, and the new target drops
    them.
    """
    state = context.states.get(key)
    return state is not None and not set(state.isr).intersection(assignment.replicas)


def _try(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[Refused | None]:
    try:
        yield from advance(context, key, assignment)
    except NotMovable as reason:
        logger.error("partition not moved topic=%s partition=%d reason=%s", *key, reason)
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(reason))
    return None
