"""A store that holds every state of a partition against those before it."""

from collections.abc import Sequence
from typing import Any, Final

from odradek.broker.cluster.reading import StoredTopic, stored_state
from odradek.broker.coordination.commit_queue import News
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import EventKind, WatchEvent
from odradek.broker.coordination.tree import Tree
from odradek.broker.coordination.znodes import (
    BROKER_TOPICS,
    CONTROLLER_EPOCH,
    TopicAssignment,
    decode_controller_epoch,
    partition_state_path,
    topic_path,
)
from odradek.broker.core.controller.context import TopicNode
from odradek.broker.core.controller.effects import StoredState
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from tests.sim.cluster.checks import Checks

WRITTEN: Final = frozenset({EventKind.CREATED, EventKind.CHANGED})


class WatchedStore(EmbeddedStore):
    """The embedded store; `before` is that of the process that was killed."""

    def __init__(self, path: str, before: "WatchedStore | None", **options: Any) -> None:
        super().__init__(path, **options)
        self._checks: Checks = Checks() if before is None else before._checks

    @property
    def tree(self) -> Tree:
        """All nodes, whether they are durable or not."""
        return self._tree

    async def start(self) -> None:
        """Read the journal, which may lack what nobody was told of."""
        await super().start()
        self._checks.forget_all_but(self.states)

    @property
    def states(self) -> dict[TopicPartition, tuple[bytes, StoredState]]:
        """Topic id and state of each partition that has a state."""
        return {
            (topic, partition): (node.topic_id, state)
            for topic, node in self.topics.items()
            for partition in node.partitions
            if (state := self._state((topic, partition))) is not None and node.topic_id is not None
        }

    @property
    def topics(self) -> dict[str, TopicNode]:
        """All topics by name."""
        is_empty = self._tree.exists(BROKER_TOPICS) is None
        names = [] if is_empty else self._tree.children(BROKER_TOPICS)
        return {topic: self._topic(topic) for topic in names}

    def _topic(self, topic: str) -> TopicNode:
        data, stat = self._tree.get(topic_path(topic))
        node = TopicAssignment.decode(data)
        assert node.topic_id is not None
        return StoredTopic(topic, node, stat.version).as_node(node.topic_id)

    def _state(self, key: TopicPartition) -> StoredState | None:
        path = partition_state_path(*key)
        return None if self._tree.exists(path) is None else stored_state(*self._tree.get(path))

    def _watch_calls(self, events: Sequence[WatchEvent]) -> list[News]:
        for event in events:
            parts = event.path.split("/")
            if parts[-1] == "state" and f"/{parts[1]}/{parts[2]}" == BROKER_TOPICS:
                self._see((parts[3], int(parts[5])), event.kind)
        return super()._watch_calls(events)

    def _see(self, key: TopicPartition, kind: EventKind) -> None:
        now = self._state(key)
        if kind not in WRITTEN or now is None:
            return
        node = self._topic(key[0])
        assert node.topic_id is not None
        state = PartitionState(
            key[0],
            node.topic_id,
            key[1],
            now.leader,
            now.leader_epoch,
            now.isr,
            node.partitions[key[1]].replicas,
            now.partition_epoch,
            now.controller_epoch,
        )
        controller_epoch = decode_controller_epoch(self._tree.get(CONTROLLER_EPOCH)[0])
        before = None if kind is EventKind.CREATED else self._checks.latest(state)
        self._checks.state_written(node, state, before, now, controller_epoch, is_fenced=True)
