"""Procedures for created or removed topics, and for added partitions.

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from ..partition_state import TopicPartition
from .context import Context, TopicNode
from .effects import Procedure, WriteAssignment
from .partition_machine import change_partitions
from .replica_machine import change_replicas
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


def topics_changed(
    context: Context, topics: Mapping[str, TopicNode], gone: Collection[str]
) -> Procedure[None]:
    """Topics were created or removed in the store; `topics` holds only new ones."""
    for topic in gone:
        context.remove_topic(topic)
    created = []
    for topic, node in topics.items():
        if topic not in context.assignments:
            context.add_topic(topic, node)
            created += context.partitions_of((topic,))
    logger.info("topics changed new=%d gone=%d partitions=%d", len(topics), len(gone), len(created))
    yield from _create(context, created)


def topic_changed(context: Context, topic: str, node: TopicNode) -> Procedure[None]:
    """A topic's znode has changed: partitions may have been added."""
    known = context.assignments.get(topic)
    if known is None:
        return  # the topic is not known yet, or no longer
    added = {p: assignment for p, assignment in node.partitions.items() if p not in known}
    if not added:
        return
    if context.is_to_be_deleted(topic):
        logger.warning("no partitions added to a topic that is being deleted topic=%s", topic)
        led = {p: known[p] for p in node.partitions if (topic, p) in context.states}
        yield WriteAssignment(topic, context.topic_ids[topic], led)
        return
    known.update(added)
    yield from _create(context, [(topic, partition) for partition in added])


def _create(context: Context, partitions: Sequence[TopicPartition]) -> Procedure[None]:
    """Elect the first leaders of new partitions, and start their replicas."""
    if not partitions:
        return
    yield from change_partitions(context, partitions, PartitionStatus.NEW)
    replicas = context.replicas_of(partitions)
    yield from change_replicas(context, replicas, ReplicaStatus.NEW)
    yield from change_partitions(context, partitions, PartitionStatus.ONLINE)
    yield from change_replicas(context, replicas, ReplicaStatus.ONLINE)
