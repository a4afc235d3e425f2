"""Procedures for brokers that start, stop, bounce, or lose log directories.

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging
from collections.abc import Collection, Mapping

from odradek.protocol.errors import ErrorCode

from ..partition_state import TopicPartition
from .context import Context, LiveBroker, ReplicasByBroker
from .deletion import fail_deletions, retry_deletions
from .effects import Procedure
from .partition_machine import bring_online, change_partitions
from .reassignment import resume_reassignments
from .replica_machine import change_replicas
from .request_batch import send_full_metadata, send_metadata
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


def brokers_changed(context: Context, registered: Mapping[int, LiveBroker]) -> Procedure[None]:
    """Brokers have started, stopped, bounced (a new epoch) or changed their endpoints or,
    unlike Kafka's, their rack.
    """
    known = context.brokers
    new = sorted(registered.keys() - known.keys())
    dead = sorted(known.keys() - registered.keys())
    both = sorted(registered.keys() & known.keys())
    bounced = [b for b in both if registered[b].epoch > known[b].epoch]
    moved = [b for b in both if registered[b].epoch == known[b].epoch and registered[b] != known[b]]
    if new or dead or bounced or moved:
        logger.info("brokers changed new=%s dead=%s bounced=%s moved=%s", new, dead, bounced, moved)
    if bounced:  # Kafka handles new brokers first, which may start work that the bounce must undo
        yield from _stop(context, bounced)
        yield from _start(context, {b: registered[b] for b in bounced})
    if new:
        yield from _start(context, {b: registered[b] for b in new})
    if dead:
        yield from _stop(context, dead)
    if moved:
        context.brokers.update({b: registered[b] for b in moved})
        yield from send_metadata(context)


def log_dirs_failed(context: Context, broker_ids: Collection[int]) -> Procedure[None]:
    """Brokers have lost log directories; their LeaderAndIsr responses tell which replicas.

    Odradek's brokers also report that a full disk has room again. Failed deletions are therefore
    retried here; in Kafka they wait until the broker restarts.
    """
    replicas = context.replicas_on(broker_ids)
    yield from change_replicas(context, replicas, ReplicaStatus.ONLINE)
    topics = sorted({topic for keys in replicas.values() for topic, _ in keys})
    yield from retry_deletions(context, topics)


def leader_and_isr_answered(
    context: Context, broker_id: int, errors: Mapping[TopicPartition, ErrorCode]
) -> Procedure[None]:
    """A broker has answered; only replicas with KAFKA_STORAGE_ERROR go offline there.

    Replicas with NONE come online again, as a full disk may have room again for a log that could
    not be created. Kafka keeps them offline until the broker restarts.
    """
    if broker_id not in context.brokers:
        return
    before = context.offline_replicas.get(broker_id, set())
    failed = {
        key
        for key, code in errors.items()
        if code == ErrorCode.KAFKA_STORAGE_ERROR and not _is_deleting(context, broker_id, key)
    }
    # STALE_CONTROLLER_EPOCH: the role was taken already, and the first response was lost.
    well = (ErrorCode.NONE, ErrorCode.STALE_CONTROLLER_EPOCH)
    served = {key for key, code in errors.items() if code in well}
    now = {key for key in before - served | failed if broker_id in context.assignment(key).replicas}
    context.offline_replicas[broker_id] = now
    lost = sorted(now - before)
    if lost:
        logger.error("replicas are offline broker=%d replicas=%s", broker_id, lost)
        yield from _go_offline(context, {broker_id: lost})
    back = sorted(before - now)
    if back:
        logger.info("replicas are online again broker=%d replicas=%s", broker_id, back)
        yield from _tell_again(context, broker_id, back)
        yield from bring_online(context)
        yield from retry_deletions(context, sorted({topic for topic, _ in back}))


def _is_deleting(context: Context, broker_id: int, key: TopicPartition) -> bool:
    """Whether the replica's deletion has begun: then only the StopReplica response counts."""
    status = context.replica_status.get(key, {}).get(broker_id)
    return status in (ReplicaStatus.DELETION_STARTED, ReplicaStatus.DELETION_SUCCESSFUL)


def _tell_again(
    context: Context, broker_id: int, keys: Collection[TopicPartition]
) -> Procedure[None]:
    """Send the current state of replicas that are online again.

    The broker got none while they were offline there. It may have answered for an earlier role,
    and would otherwise continue with an outdated leader epoch.
    """
    known = (ReplicaStatus.ONLINE, ReplicaStatus.OFFLINE)
    told = [key for key in keys if context.replica_status[key].get(broker_id) in known]
    if told:
        yield from change_replicas(context, {broker_id: told}, ReplicaStatus.ONLINE)


def _start(context: Context, brokers: Mapping[int, LiveBroker]) -> Procedure[None]:
    context.brokers.update(brokers)
    for broker_id in brokers:
        context.offline_replicas.pop(broker_id, None)
    others = context.brokers.keys() - brokers.keys()
    if others:
        yield from send_metadata(context, (), others)
    yield from send_full_metadata(context, brokers.keys())
    replicas = context.replicas_on(brokers.keys())
    yield from change_replicas(context, replicas, ReplicaStatus.ONLINE)
    yield from bring_online(context)
    waiting = [
        key
        for key in context.reassigning
        if not brokers.keys().isdisjoint(context.assignment(key).target)
    ]
    yield from resume_reassignments(context, waiting)
    topics = sorted({topic for keys in replicas.values() for topic, _ in keys})
    yield from retry_deletions(context, topics)


def _stop(context: Context, broker_ids: Collection[int]) -> Procedure[None]:
    for broker_id in broker_ids:
        del context.brokers[broker_id]
        context.offline_replicas.pop(broker_id, None)
        context.shutting_down.discard(broker_id)
    yield from _go_offline(context, context.replicas_on(broker_ids))


def _go_offline(context: Context, replicas: ReplicasByBroker) -> Procedure[None]:
    """Elect other leaders, remove the replicas from the ISRs, and halt deletions."""
    doomed = _filter(context, replicas, to_be_deleted=True)
    others = _filter(context, replicas, to_be_deleted=False)
    leaderless = [
        key
        for key, state in context.states.items()
        if not context.is_online(state.leader, key) and not context.is_to_be_deleted(key[0])
    ]
    yield from change_partitions(context, leaderless, PartitionStatus.OFFLINE)
    elected = yield from bring_online(context)
    yield from change_replicas(context, others, ReplicaStatus.OFFLINE)
    if doomed:
        yield from fail_deletions(context, doomed)
    if not others and not elected:  # no broker has got an update yet
        yield from send_metadata(context)


def _filter(
    context: Context, replicas: ReplicasByBroker, *, to_be_deleted: bool
) -> ReplicasByBroker:
    found = {
        broker_id: [key for key in keys if context.is_to_be_deleted(key[0]) == to_be_deleted]
        for broker_id, keys in replicas.items()
    }
    return {broker_id: keys for broker_id, keys in found.items() if keys}
