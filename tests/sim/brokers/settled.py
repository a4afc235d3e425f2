"""When a cluster is at rest, and what all of its replicas must have then."""

from collections.abc import Iterator
from typing import Final

from odradek.broker.cluster.admin_requests import REASSIGN_PARTITIONS
from odradek.broker.coordination.znodes import BROKER_IDS, CONTROLLER, DELETE_TOPICS
from odradek.broker.core.controller.context import TopicNode
from odradek.broker.core.controller.effects import StoredState
from odradek.broker.core.partition_state import TopicPartition
from odradek.storage.log.log import Log
from tests.sim.storage_client import kept_in

from .clients import EVENTS, TABLE, Clients
from .cluster import SimCluster

READ_BYTES: Final = 1 << 20


def trouble(cluster: SimCluster) -> str | None:
    """What is still to come, unless clients write; None if nothing is."""
    return next(_troubles(cluster), None) or next(_differences(cluster), None)


def trouble_under_load(cluster: SimCluster) -> str | None:
    """The same while clients write."""
    return next(_troubles(cluster), None)


def _troubles(cluster: SimCluster) -> Iterator[str]:
    tree, topics, states = cluster.tree, cluster.store.topics, cluster.store.states
    for broker_id in cluster.ports:
        if broker_id not in cluster.brokers or str(broker_id) not in tree.children(BROKER_IDS):
            yield f"broker {broker_id} is not registered"
    if tree.exists(CONTROLLER) is None:
        yield "there is no controller"
    if tree.exists(DELETE_TOPICS) is not None and tree.children(DELETE_TOPICS):
        yield f"topics are still to be deleted: {tree.children(DELETE_TOPICS)}"
    if tree.exists(REASSIGN_PARTITIONS) is not None:
        yield "a reassignment is requested"
    for topic, node in topics.items():
        for partition in node.partitions:
            key = topic, partition
            if key not in states:
                yield f"{key} has no state"
            else:
                yield from _partition_troubles(cluster, key, node, states[key][1])
    for broker_id in cluster.brokers:
        told = sorted(cluster.node(broker_id).metadata.brokers)
        if told != sorted(cluster.brokers):
            yield f"broker {broker_id} tells clients of the brokers {told}"
        known = cluster.node(broker_id).metadata.topics
        if known.keys() != topics.keys():
            yield f"broker {broker_id} tells clients of {sorted(known)}, not of {sorted(topics)}"


def _partition_troubles(
    cluster: SimCluster, key: TopicPartition, node: TopicNode, state: StoredState
) -> Iterator[str]:
    assignment = node.partitions[key[1]]
    if assignment.is_being_reassigned:
        yield f"{key} is being reassigned: {assignment}"
    if set(state.isr) != set(assignment.replicas) or state.leader not in state.isr:
        yield f"{key} is not in sync: {state} of {assignment.replicas}"
    for broker_id in assignment.replicas:
        replica = cluster.node(broker_id).replicas.partitions.get(key)
        if replica is None or replica.state.leader_epoch != state.leader_epoch:
            yield f"broker {broker_id} does not serve {key} in epoch {state.leader_epoch}"
    for broker_id in cluster.brokers:
        topic = cluster.node(broker_id).metadata.topics.get(key[0])
        told = None if topic is None else topic.find(key[1])
        if topic is None or told is None or topic.topic_id != node.topic_id:
            yield f"broker {broker_id} does not tell clients of {key}"
        elif (told.leader, told.leader_epoch) != (state.leader, state.leader_epoch):
            yield f"broker {broker_id} tells clients that {told.leader} leads {key}, not {state}"


def _differences(cluster: SimCluster) -> Iterator[str]:
    for key, logs in logs_of(cluster).items():
        ends = {end for log in logs for end in (log.log_end_offset, log.high_watermark)}
        if len(ends) > 1:
            yield f"{key} ends at {sorted(ends)}"


def logs_of(cluster: SimCluster) -> dict[TopicPartition, list[Log]]:
    """The logs of all in-sync replicas."""
    return {
        key: [cluster.node(broker_id).replicas.partitions[key].log for broker_id in state.isr]
        for key, (_, state) in cluster.store.states.items()
    }


def check_replicas(cluster: SimCluster, clients: Clients) -> None:
    """All replicas hold the same; a compacted log holds the newest record of each key."""
    for (topic, partition), logs in logs_of(cluster).items():
        if topic == TABLE:
            for log in logs:
                kept, _ = kept_in(memoryview(read(log)), log.log_start_offset)
                clients.past.check(kept, log.log_start_offset)
        elif topic == EVENTS:
            assert len({read(log) for log in logs}) == 1, f"replicas of {topic}-{partition} differ"


def read(log: Log) -> bytes:
    """All that a log holds."""
    data, offset = bytearray(), log.log_start_offset
    while (
        span := log.read(offset, size_bytes_max=READ_BYTES, offset_end=log.log_end_offset)
    ) is not None:
        data += span.read()
        offset = span.next_offset
        span.release()
    return bytes(data)
