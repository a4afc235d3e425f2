"""The first procedure of a new controller.

Source: Kafka 3.9's controller in ZooKeeper mode.
"""

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..partition_state import TopicPartition
from .context import Context, LiveBroker, TopicNode
from .deletion import halt_deletions, resume_deletions
from .effects import Breathe, DropDeletionRequests, Procedure, StoredState
from .partition_machine import start_partitions
from .reassignment import reassignments_requested, resume_reassignments
from .rebalance import preferred_elections_requested
from .replica_machine import start_replicas
from .request_batch import send_full_metadata, slices

logger = logging.getLogger(__name__)


class Snapshot(NamedTuple):
    """Everything that a new controller has read from the store."""

    brokers: Mapping[int, LiveBroker]
    topics: Mapping[str, TopicNode]
    """Every topic has an id; the shell has written missing ids."""
    states: Mapping[TopicPartition, StoredState]
    deletions: Collection[str]
    reassignments: Mapping[TopicPartition, tuple[int, ...]]
    """The content of /admin/reassign_partitions."""
    preferred_elections: Collection[TopicPartition]
    """The content of /admin/preferred_replica_election; the shell deletes the znode afterwards."""
    is_complete: bool = True
    """False: some topics are left out because their znodes can't be read; that may be fixed."""


def fail_over(context: Context, snapshot: Snapshot) -> Procedure[None]:
    """Start as controller: update all brokers, elect missing leaders, resume unfinished work.

    The first effect is UpdateMetadata to all brokers (apart from Breathe, and DropDeletionRequests
    if topic deletion is disabled): a broker can't follow a leader that it does not know. In Kafka
    this first update names no partitions. Brokers that have just started then tell their clients
    for a moment that there are no topics, and consumers with a pattern drop their assignments.
    """
    yield from _load(context, snapshot)
    if context.delete_topic_enable:
        _queue_deletions(context, snapshot.deletions)
    elif snapshot.deletions:
        yield DropDeletionRequests(sorted(snapshot.deletions))
    yield from send_full_metadata(context)
    yield from start_replicas(context)
    yield from start_partitions(context)
    begun: Collection[TopicPartition] = ()
    if snapshot.reassignments:
        begun = yield from reassignments_requested(context, snapshot.reassignments)
    waiting = [key for key in context.reassigning if key not in begun]
    yield from resume_reassignments(context, waiting)
    yield from resume_deletions(context)
    yield from preferred_elections_requested(context, snapshot.preferred_elections)
    logger.info(
        "controller is ready epoch=%d brokers=%d topics=%d begun=%d",
        context.controller_epoch,
        len(context.brokers),
        len(context.assignments),
        len(begun),
    )


def _load(context: Context, snapshot: Snapshot) -> Procedure[None]:
    context.brokers = dict(snapshot.brokers)
    context.is_complete = snapshot.is_complete
    for number, topics in enumerate(slices(list(snapshot.topics))):
        if number:
            yield Breathe()
        for topic in topics:
            context.add_topic(topic, snapshot.topics[topic])
    for number, keys in enumerate(slices(list(context.partitions()))):
        if number:
            yield Breathe()
        for key in keys:
            if key in snapshot.states:
                context.states[key] = context.state_from(key, snapshot.states[key])
            if context.assignment(key).is_being_reassigned:
                context.reassigning[key] = None


def _queue_deletions(context: Context, topics: Collection[str]) -> None:
    context.topics_to_delete.update(dict.fromkeys(sorted(topics)))
    reassigning = {topic for topic, _ in context.reassigning}
    halted = []
    for topic in context.topics_to_delete:
        is_offline = any(
            not context.is_online(replica, (topic, partition))
            for partition, assignment in context.assignments.get(topic, {}).items()
            for replica in assignment.replicas
        )
        if is_offline or topic in reassigning:
            halted.append(topic)
    halt_deletions(context, halted, "replicas are offline, or a reassignment is under way")
