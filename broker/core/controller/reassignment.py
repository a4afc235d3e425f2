"""Moves partitions to other replicas (KIP-455).

Source: Kafka 3.9's controller in ZooKeeper mode. The topic's node holds target and original
replicas until the targets are in sync; then the others are stopped, and the node written anew.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping

from odradek.protocol.errors import ErrorCode, Refused

from ..elections import Strategy
from ..partition_state import PartitionState, TopicPartition
from .context import Context
from .deletion import halt_deletions, retry_deletions
from .effects import (
    KeepReassignmentRequests,
    Procedure,
    ReadStates,
    ReplicaAssignment,
    WriteAssignment,
    WriteStates,
)
from .partition_machine import change_partitions
from .replica_machine import change_replicas
from .request_batch import RequestBatch, send_metadata
from .status import PartitionStatus, ReplicaStatus

log = logging.getLogger(__name__)

Reassigned = dict[TopicPartition, Refused | None]


class _NeverLed(Exception):
    """A partition without a state node can't be moved."""


def reassign(
    context: Context, asked: Mapping[TopicPartition, tuple[int, ...] | None]
) -> Procedure[Reassigned]:
    """Begin reassignments, replace them by others, or (None) cancel them."""
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
    yield from _drop_requests(context, lambda key, replicas: key in begun)
    results.update((yield from _begin(context, begun)))
    return results


def reassignments_requested(
    context: Context, requests: Mapping[TopicPartition, tuple[int, ...]]
) -> Procedure[Collection[TopicPartition]]:
    """Somebody has written /admin/reassign_partitions.  Returns those that were begun.

    What is under way goes on: we also read the node when one of several moves is done and it was
    us who wrote.
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
        log.warning("reassignments refused partitions=%s", sorted(failed))
        yield from _drop_requests(context, lambda key, replicas: key in failed)
    return [key for key in results if key not in failed]


def resume_reassignments(context: Context, partitions: Iterable[TopicPartition]) -> Procedure[None]:
    """Go on with reassignments that may have waited."""
    for key in partitions:
        if key in context.reassigning:
            yield from _try(context, key, context.assignment(key))


def complete_reassignments(
    context: Context, partitions: Iterable[TopicPartition]
) -> Procedure[None]:
    """Finish what is being reassigned and has all of its target replicas in sync."""
    for key in partitions:
        if key in context.reassigning:
            assignment = context.assignment(key)
            if (yield from _is_complete(key, assignment)):
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
    """The way to the target, or back; None if there is no way to go back."""
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
        else:
            results[key] = yield from _try(context, key, assignment)
    return results


def _try(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[Refused | None]:
    try:
        yield from _advance(context, key, assignment)
    except _NeverLed:
        log.error("a partition that was never led can't be moved topic=%s partition=%d", *key)
        return Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "the partition never had a leader")
    return None


def _advance(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[None]:
    """Take a reassignment one phase on."""
    halt_deletions(context, (key[0],), "a reassignment is under way")
    yield from _update(context, key, assignment)
    if not (yield from _is_complete(key, assignment)):
        yield from _raise_epoch(context, key, assignment)
        for replica in assignment.adding:
            yield from change_replicas(context, {replica: [key]}, ReplicaStatus.NEW)
        return
    adding = {replica: [key] for replica in sorted(assignment.adding)}
    yield from change_replicas(context, adding, ReplicaStatus.ONLINE)
    completed = ReplicaAssignment(assignment.target)
    context.set_assignment(key, completed)
    has_leader = yield from _settle_leader(context, key, completed)
    if not has_leader and not (yield from _is_complete(key, assignment)):
        # An older leader has shrunk the ISR meanwhile: the replicas that go hold what is committed.
        log.warning("targets are in sync no more topic=%s partition=%d", *key)
        context.set_assignment(key, assignment)
        return
    yield from _stop_replicas(context, key, assignment.removing)
    yield from _write(context, key, completed)
    yield from _drop_requests(
        context, lambda other, replicas: other == key and replicas == completed.replicas
    )
    del context.reassigning[key]
    yield from send_metadata(context, (key,))
    log.info("reassigned topic=%s partition=%d replicas=%s", *key, list(completed.replicas))
    yield from retry_deletions(context, (key[0],))


def _update(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[None]:
    """Write the assignment before it is known, so that a successor can go on."""
    now = context.assignment(key)
    if now != assignment:
        yield from _write(context, key, assignment)
        context.set_assignment(key, assignment)
        unneeded = tuple(r for r in now.replicas if r not in assignment.replicas)
        if unneeded:
            yield from _stop_replicas(context, key, unneeded)
    context.reassigning[key] = None


def _is_complete(key: TopicPartition, assignment: ReplicaAssignment) -> Procedure[bool]:
    if not assignment.is_being_reassigned:
        return True
    stored = yield ReadStates([key])
    return key in stored and set(stored[key].isr).issuperset(assignment.target)


def _settle_leader(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[bool]:
    """Elect another leader if this one does not stay; tell the replicas of their number.

    Returns whether there is one.
    """
    state = context.states.get(key)
    if state is None:
        raise _NeverLed
    if state.leader in assignment.replicas and context.is_online(state.leader, key):
        yield from _raise_epoch(context, key, assignment)
        return True
    online, strategy = PartitionStatus.ONLINE, Strategy.REASSIGN
    return bool((yield from change_partitions(context, [key], online, strategy)))


def _raise_epoch(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[None]:
    """Let the leader know its replicas, which needs another leader epoch."""
    state: PartitionState | None = None
    while state is None:
        stored = yield ReadStates([key])
        if key not in stored:
            raise _NeverLed
        read = context.state_to_change(key, stored[key])
        raised = read._replace(
            leader_epoch=read.leader_epoch + 1, partition_epoch=read.partition_epoch + 1
        )
        conflicts = yield WriteStates([raised])
        state = None if key in conflicts else raised
    context.states[key] = state
    batch = RequestBatch(context)
    batch.add_leader_and_isr(assignment.origin, state)
    # Only a new replica may be made where a log directory is offline.
    batch.add_leader_and_isr(assignment.adding, state, is_new=True)
    yield from batch.send()


def _stop_replicas(
    context: Context, key: TopicPartition, replicas: Iterable[int]
) -> Procedure[None]:
    """Take replicas out of the ISR and have them deleted; nobody waits for it."""
    stopped = {replica: [key] for replica in sorted(replicas)}
    for status in (
        ReplicaStatus.OFFLINE,
        ReplicaStatus.DELETION_STARTED,
        ReplicaStatus.DELETION_SUCCESSFUL,
        ReplicaStatus.NON_EXISTENT,
    ):
        yield from change_replicas(context, stopped, status)


def _write(context: Context, key: TopicPartition, assignment: ReplicaAssignment) -> Procedure[None]:
    topic, partition = key
    partitions = {**context.assignments[topic], partition: assignment}
    yield WriteAssignment(topic, context.topic_ids[topic], partitions)


def _drop_requests(
    context: Context, is_meant: Callable[[TopicPartition, tuple[int, ...]], bool]
) -> Procedure[None]:
    """Take requests from /admin/reassign_partitions, if there is such a node."""
    requests = context.reassignment_requests
    if requests:
        left = {key: replicas for key, replicas in requests.items() if not is_meant(key, replicas)}
        context.reassignment_requests = left
        yield KeepReassignmentRequests(left)
