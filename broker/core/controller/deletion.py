"""Deletes topics: stops the replicas, has the brokers delete them, then removes the znodes.

Source: the topic deletion manager of Kafka 3.9's controller in ZooKeeper mode. A deletion is
halted while a replica is offline or a partition is being reassigned, and resumed when a broker
starts or a reassignment ends.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from odradek.protocol.errors import ErrorCode

from ..partition_state import TopicPartition
from .context import Context, ReplicasByBroker
from .effects import Breathe, DeleteTopicNodes, DropDeletionRequests, Procedure
from .partition_machine import change_partitions
from .reassignment_requests import drop_requests
from .replica_machine import change_replicas
from .request_batch import send_metadata, slices
from .status import REPLICA_BEFORE, PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)

NAMED_MAX: Final = 10
"""The most topics that one log line names."""


def deletions_asked(context: Context, topics: Collection[str], *, enabled: bool) -> Procedure[None]:
    """There are deletion requests below /admin/delete_topics; `enabled`: delete.topic.enable."""
    unknown = [topic for topic in topics if topic not in context.assignments]
    if unknown:
        logger.warning("no such topics to delete topics=%s", ",".join(unknown))
        yield DropDeletionRequests(unknown)
    known = [topic for topic in topics if topic in context.assignments]
    if not known:
        return
    if not enabled:
        logger.info("topic deletion is disabled, requests dropped topics=%s", ",".join(known))
        yield DropDeletionRequests(known)
        return
    reassigning = {topic for topic, _ in context.reassigning}
    context.topics_to_delete.update(dict.fromkeys(known))
    halt_deletions(context, reassigning.intersection(known), "a reassignment is under way")
    yield from resume_deletions(context)


def stop_replica_answered(
    context: Context, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> Procedure[None]:
    """A broker has answered StopReplica for replicas to delete (NONE: deleted).

    Replicas whose deletion has not started are ignored: a late response for a replica that a
    reassignment has stopped would halt the topic's deletion, as it does in Kafka.
    """
    errors = {
        key: code
        for key, code in errors.items()
        if key[0] in context.deletions_begun
        and context.replica_status.get(key, {}).get(broker_id) is ReplicaStatus.DELETION_STARTED
    }
    failed = [key for key, code in errors.items() if code != ErrorCode.NONE]
    if failed:
        yield from fail_deletions(context, {broker_id: failed})
    done = [key for key, code in errors.items() if code == ErrorCode.NONE]
    done = [key for key in done if context.is_to_be_deleted(key[0])]
    if done:
        yield from change_replicas(context, {broker_id: done}, ReplicaStatus.DELETION_SUCCESSFUL)
        yield from resume_deletions(context)


def halt_deletions(context: Context, topics: Iterable[str], why: str) -> None:
    """Halt the pending deletions among these topics."""
    halted = sorted(
        topic
        for topic in topics
        if context.is_to_be_deleted(topic) and topic not in context.deletions_halted
    )
    if halted:
        context.deletions_halted.update(halted)
        named = ",".join(halted[:NAMED_MAX])
        logger.info("topic deletions wait count=%d topics=%s why=%s", len(halted), named, why)


def retry_deletions(context: Context, topics: Iterable[str]) -> Procedure[None]:
    """Resume the pending deletions of these topics, as what halted them may be over."""
    waiting = [topic for topic in topics if context.is_to_be_deleted(topic)]
    if waiting:
        context.deletions_halted.difference_update(waiting)
        yield from resume_deletions(context)


def fail_deletions(context: Context, replicas: ReplicasByBroker) -> Procedure[None]:
    """Replicas (by broker) to delete have gone offline, or their deletion failed: halt it."""
    yield from _leave(context, replicas)
    topics = {topic for keys in replicas.values() for topic, _ in keys}
    halt_deletions(context, topics, "replicas could not be deleted")
    yield from resume_deletions(context)


def resume_deletions(context: Context) -> Procedure[None]:
    """Advance each deletion as far as possible."""
    to_retry = []
    to_begin = []
    for number, topics in enumerate(slices(list(context.topics_to_delete))):
        if number:
            yield Breathe()
        for topic in topics:
            if _is_deleted(context, topic):
                yield from _complete(context, topic)
                continue
            if context.is_any_replica(topic, ReplicaStatus.DELETION_STARTED):
                continue  # answers are awaited
            if context.is_any_replica(topic, ReplicaStatus.DELETION_INELIGIBLE):
                to_retry.append(topic)
            if topic not in context.deletions_halted:
                to_begin.append(topic)
    if to_retry:
        ineligible = context.with_status(to_retry, ReplicaStatus.DELETION_INELIGIBLE)
        yield from change_replicas(context, ineligible, ReplicaStatus.OFFLINE)
    if to_begin:
        yield from _begin(context, to_begin)


def _is_deleted(context: Context, topic: str) -> bool:
    return all(
        context.replica_status.get((topic, partition), {}).get(replica)
        is ReplicaStatus.DELETION_SUCCESSFUL
        for partition, assignment in context.assignments.get(topic, {}).items()
        for replica in assignment.replicas
    )


def _complete(context: Context, topic: str) -> Procedure[None]:
    deleted = context.with_status((topic,), ReplicaStatus.DELETION_SUCCESSFUL)
    yield from change_replicas(context, deleted, ReplicaStatus.NON_EXISTENT)
    yield DeleteTopicNodes(topic)
    context.remove_topic(topic)
    if any(key[0] == topic for key in context.reassignment_requests):  # Kafka leaves them
        yield from drop_requests(context, lambda key, replicas: key[0] == topic)
    logger.info("topic deleted topic=%s", topic)


def _begin(context: Context, topics: Collection[str]) -> Procedure[None]:
    """Begin deletions, or continue with the replicas that are not deleted yet."""
    unseen = [topic for topic in topics if topic not in context.deletions_begun]
    if unseen:
        partitions = context.partitions_of(unseen)
        yield from change_partitions(context, partitions, PartitionStatus.OFFLINE)
        yield from change_partitions(context, partitions, PartitionStatus.NON_EXISTENT)
        context.deletions_begun.update(unseen)
        for key in partitions:  # the reassignment can no longer end, and would halt the deletion
            context.reassigning.pop(key, None)
    yield from send_metadata(context, context.partitions_of(topics))
    dead: ReplicasByBroker = {}
    alive: ReplicasByBroker = {}
    for number, keys in enumerate(slices(context.partitions_of(topics))):
        if number:
            yield Breathe()
        _sort_by_liveness(context, keys, dead, alive)
    dead = dict(sorted(dead.items()))
    alive = dict(sorted(alive.items()))
    yield from _leave(context, dead)
    yield from change_replicas(context, alive, ReplicaStatus.OFFLINE)
    yield from change_replicas(context, alive, ReplicaStatus.DELETION_STARTED)
    topics_waiting = {topic for keys in dead.values() for topic, _ in keys}
    halt_deletions(context, topics_waiting, "replicas are offline")


def _leave(context: Context, replicas: ReplicasByBroker) -> Procedure[None]:
    """Mark replicas that can't be deleted now as ineligible.

    Only those in state OFFLINE or DELETION_STARTED are marked; the others keep their state.
    """
    before = REPLICA_BEFORE[ReplicaStatus.DELETION_INELIGIBLE]
    left = {
        broker_id: [
            key for key in keys if context.replica_status.get(key, {}).get(broker_id) in before
        ]
        for broker_id, keys in replicas.items()
    }
    left = {broker_id: keys for broker_id, keys in left.items() if keys}
    yield from change_replicas(context, left, ReplicaStatus.DELETION_INELIGIBLE)


def _sort_by_liveness(
    context: Context,
    keys: Iterable[TopicPartition],
    dead: ReplicasByBroker,
    alive: ReplicasByBroker,
) -> None:
    """Add offline replicas to `dead`, and online ones that are not deleted yet to `alive`."""
    for key in keys:
        status = context.replica_status.get(key, {})
        for replica in context.assignment(key).replicas:
            if not context.is_online(replica, key):
                dead.setdefault(replica, []).append(key)
            elif status.get(replica) is not ReplicaStatus.DELETION_SUCCESSFUL:
                alive.setdefault(replica, []).append(key)
