"""The phases of one reassignment, which `reassignment` drives.

Source: Kafka 3.9's controller in ZooKeeper mode. The topic's znode holds target and original
replicas until the targets are in sync. Then the others are stopped, and the znode is rewritten.
"""

import logging
from collections.abc import Collection, Iterable

from ..elections import Strategy
from ..partition_state import NO_LEADER, PartitionState, TopicPartition
from .context import Context
from .deletion import halt_deletions, retry_deletions
from .effects import (
    Procedure,
    ReadStates,
    ReplicaAssignment,
    WriteAssignment,
    WriteStates,
)
from .partition_machine import change_partitions
from .reassignment_requests import drop_requests
from .replica_machine import change_replicas
from .request_batch import RequestBatch, send_metadata
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


class NotMovable(Exception):
    """The partition has no state znode that this controller may change."""


def advance(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[None]:
    """Advance a reassignment by one phase: add the target replicas, or complete it.

    Raises: NotMovable.
    """
    halt_deletions(context, (key[0],), "a reassignment is under way")
    goes_back = yield from _update(context, key, assignment)
    if not (yield from is_complete(key, assignment)):
        yield from _raise_epoch(context, key, assignment, assignment.replicas)
        for replica in assignment.adding:
            yield from change_replicas(context, {replica: [key]}, ReplicaStatus.NEW)
        return
    adding = {replica: [key] for replica in sorted(assignment.adding)}
    yield from change_replicas(context, adding, ReplicaStatus.ONLINE)
    completed = ReplicaAssignment(assignment.target)
    context.set_assignment(key, completed)
    has_leader = yield from _settle_leader(context, key, completed, assignment.replicas)
    if not has_leader and not (yield from is_complete(key, assignment)):
        # A leader of an older version has shrunk the ISR meanwhile, by itself: the replicas to
        # remove hold the committed records.
        logger.warning("new replicas are no longer in sync topic=%s partition=%d", *key)
        context.set_assignment(key, assignment)
        return
    yield from _stop_replicas(context, key, assignment.removing)
    if goes_back:  # Kafka also writes at the beginning: so the znode gets the same version as there
        yield from _write(context, key, completed)
    yield from _write(context, key, completed)
    yield from drop_requests(
        context, lambda other, replicas: other == key and replicas == completed.replicas
    )
    del context.reassigning[key]
    yield from send_metadata(context, (key,))
    logger.info("reassigned topic=%s partition=%d replicas=%s", *key, list(completed.replicas))
    yield from retry_deletions(context, (key[0],))


def _update(
    context: Context, key: TopicPartition, assignment: ReplicaAssignment
) -> Procedure[bool]:
    """Write the assignment before the context has it, so that a successor can continue.

    Returns True for a cancellation, whose assignment is written only at its end: once it is in the
    znode, a successor sees no reassignment and does nothing. Kafka writes it here; if its
    controller dies meanwhile, dropped replicas may stay in sync.
    """
    now = context.assignment(key)
    goes_back = now.is_being_reassigned and not assignment.is_being_reassigned
    if now != assignment:
        if not goes_back:
            yield from _write(context, key, assignment)
        context.set_assignment(key, assignment)
        unneeded = tuple(r for r in now.replicas if r not in assignment.replicas)
        if unneeded:
            yield from _stop_replicas(context, key, unneeded)
    context.reassigning[key] = None
    return goes_back


def is_complete(key: TopicPartition, assignment: ReplicaAssignment) -> Procedure[bool]:
    """Whether all target replicas are in sync according to the store."""
    if not assignment.is_being_reassigned:
        return True
    stored = yield ReadStates([key])
    return key in stored and set(stored[key].isr).issuperset(assignment.target)


def _settle_leader(
    context: Context,
    key: TopicPartition,
    assignment: ReplicaAssignment,
    known: Collection[int],
) -> Procedure[bool]:
    """Tell the brokers the new replicas; elect a new leader if this one is removed or offline.

    Returns whether there is a leader. `known` are the replicas that may be in sync.
    Raises: NotMovable.
    """
    state = context.states.get(key)
    if state is None:
        raise NotMovable("the partition never had a leader")
    if state.leader in assignment.replicas and context.is_online(state.leader, key):
        yield from _raise_epoch(context, key, assignment, known)
        return True
    online, strategy = PartitionStatus.ONLINE, Strategy.REASSIGN
    if not (yield from change_partitions(context, [key], online, strategy)):
        return False
    if not set(known).issuperset(context.states[key].isr):
        yield from _raise_epoch(context, key, assignment, known)
    return True


def _raise_epoch(
    context: Context,
    key: TopicPartition,
    assignment: ReplicaAssignment,
    known: Collection[int],
) -> Procedure[None]:
    """Tell the leader its replicas, which requires a new leader epoch.

    Only `known` replicas stay in the ISR: a leader of an older version, which writes the ISR
    itself, may have added a replica that was dropped meanwhile. Kafka leaves it there, where it
    could become the last one in sync.  Raises: NotMovable.
    """
    state: PartitionState | None = None
    while state is None:
        stored = yield ReadStates([key])
        if key not in stored:
            raise NotMovable("the partition never had a leader")
        read = context.state_to_change(key, stored[key])
        if read is None:
            raise NotMovable("the partition's state was written by a later controller")
        raised = read._replace(
            isr=tuple(r for r in read.isr if r in known) or read.isr,
            leader_epoch=read.leader_epoch + 1,
            partition_epoch=read.partition_epoch + 1,
        )
        conflicts = yield WriteStates([raised])
        state = None if key in conflicts else raised
    context.states[key] = state
    batch = RequestBatch(context)
    batch.add_leader_and_isr(assignment.origin, state)
    # A broker with an offline log directory may create a replica only if it is new.
    batch.add_leader_and_isr(assignment.adding, state, is_new=True)
    yield from batch.send()


def _stop_replicas(
    context: Context, key: TopicPartition, replicas: Iterable[int]
) -> Procedure[None]:
    """Remove replicas from the ISR and have them deleted, without waiting for the responses.

    If one of them led, another leader is elected; Kafka leaves the partition without one.
    """
    stopped = {replica: [key] for replica in sorted(replicas)}
    for status in (
        ReplicaStatus.OFFLINE,
        ReplicaStatus.DELETION_STARTED,
        ReplicaStatus.DELETION_SUCCESSFUL,
        ReplicaStatus.NON_EXISTENT,
    ):
        yield from change_replicas(context, stopped, status)
    state = context.states.get(key)
    if state is not None and state.leader == NO_LEADER:
        for target in (PartitionStatus.OFFLINE, PartitionStatus.ONLINE):
            yield from change_partitions(context, [key], target)


def _write(context: Context, key: TopicPartition, assignment: ReplicaAssignment) -> Procedure[None]:
    topic, partition = key
    partitions = {**context.assignments[topic], partition: assignment}
    yield WriteAssignment(topic, context.topic_ids[topic], partitions)
