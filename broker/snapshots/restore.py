"""Returns running brokers to a snapshot: carries out an `Undo`, on their event loop.

Clients are disconnected first, and turned away until all is done, so that nothing they have asked
for reaches the restored state. Their requests that have begun are completed before it is decided
what to undo.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from ..coordination.embedded import EmbeddedStore
from ..core.controller.context import Context
from ..core.controller.effects import DeleteNodes, Procedure
from ..core.controller.requests import LEADER_EPOCH_DELETED, StoppedReplica
from ..core.partition_state import LEADER_IS_DELETED, PartitionState, TopicPartition
from ..member.control_messages import Sender
from .image import Image, LogMark, Undo, undo_of
from .take import image_of, settled

if TYPE_CHECKING:
    from ..node import Node
    from ..server import Broker

LOADING_CHECK_S: Final = 0.0005
BACKLOG_TURNS: Final = 2
"""Turns of the event loop in which connections that wait in the backlog are accepted."""


async def restore(store: EmbeddedStore, brokers: "Mapping[int, Broker]", image: Image) -> Undo:
    """Return the brokers to a snapshot; what was undone.

    Raises: CannotUndo; the clients are disconnected even then, and nothing else has changed.
    """
    with _without_clients(brokers.values()):
        await settled(store, brokers.values())
        undo = undo_of(image, image_of(store, brokers, image))
        for broker in brokers.values():
            broker.node.loggers.reset_all()
        await _drop_topics(brokers.values(), undo)
        for number, broker in brokers.items():
            await _rewind(broker.node, undo.rewound[number])
        for _ in range(BACKLOG_TURNS):
            await asyncio.sleep(0)
    return undo


@contextmanager
def _without_clients(brokers: "Collection[Broker]") -> Iterator[None]:
    for broker in brokers:
        broker.connections.turn_clients_away()
    try:
        yield
    finally:
        for broker in brokers:
            broker.connections.let_clients_in()


# New topics.


async def _drop_topics(brokers: "Collection[Broker]", undo: Undo) -> None:
    """Delete topics at once, without the requests by which a controller has brokers do it."""
    if not undo.dropped_topics:
        return
    topics = frozenset(undo.dropped_topics)
    (controller,) = [each.node.controller for each in brokers if each.node.controller.is_active]
    context = controller.context
    doomed = {key: state for key, state in context.states.items() if key[0] in topics}
    await controller.ask(lambda context: _forget(context, undo))
    for broker in brokers:
        await _stop(broker.node, context, list(doomed.values()))


def _forget(context: Context, undo: Undo) -> Procedure[None]:
    for topic in undo.dropped_topics:
        context.remove_topic(topic)
    yield DeleteNodes(undo.dropped_topics, undo.dropped_paths)


async def _stop(node: "Node", context: Context, states: Collection[PartitionState]) -> None:
    sender = Sender(context.controller_id, context.controller_epoch)
    here = [state for state in states if node.broker_id in state.replicas]
    stopped = [
        StoppedReplica(state.topic, state.partition, LEADER_EPOCH_DELETED, delete=True)
        for state in here
    ]
    await node.control.stop_replicas(sender, stopped)
    gone = [state._replace(leader=LEADER_IS_DELETED) for state in states]
    brokers = list(node.metadata.brokers.values())
    await node.control.update_metadata(sender, brokers, gone)


# Logs that have grown.


async def _rewind(node: "Node", rewound: Mapping[TopicPartition, LogMark]) -> None:
    """Cut logs to where they ended, and have the coordinators read theirs again.

    A coordinator also keeps in memory what is not in its log, such as members that have joined, so
    each of its partitions with anything in it is read again.
    """
    again = []
    for coordinator in (node.groups, node.transactions):
        topic, numbers = coordinator.topic.name, coordinator.numbers_in_use()
        numbers |= {number for name, number in rewound if name == topic}
        coordinator.resign_partitions(numbers)
        again += [(coordinator, (topic, number)) for number in sorted(numbers)]
    is_promised = False
    for key, mark in rewound.items():
        partition = node.replicas.partitions[key]
        is_promised |= node.replicas.is_beyond_checkpoint(partition.log, mark.log_end_offset)
        # The leader and its epoch are those of then, or the store's node would have changed.
        partition.log.truncate(mark.log_end_offset, keeps_epochs=True)
        partition.verification_guards.clear()
        partition.wake()
    if is_promised:  # a crash must not find less than that
        await node.replicas.checkpoint()
    for coordinator, key in again:
        coordinator.lead(node.replicas.partitions[key])
    while any(coordinator.is_loading for coordinator, _ in again):  # noqa: ASYNC110 - in a thread
        await asyncio.sleep(LOADING_CHECK_S)
