"""What this broker tells clients about the cluster: brokers, topics, leaders.

Filled by the controller's UpdateMetadata; with one broker, by direct call.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from .core.partition_state import PartitionState


class Address(NamedTuple):
    """Where a listener of a broker is reached."""

    host: str
    port: int


class BrokerInfo(NamedTuple):
    """A live broker."""

    broker_id: int
    rack: str | None
    endpoints: dict[str, Address]
    """By listener name."""


class TopicInfo:
    """A topic with its partitions in order of number."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: list[PartitionState] = []


class MetadataCache:
    """The cluster as the controller last described it."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id = -1
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, TopicInfo] = {}
        self._names: dict[bytes, str] = {}
        self._changed = asyncio.Event()
        self.version = 0
        """Rises with every change of any topic."""

    async def wait_until(self, done: Callable[[], bool]) -> None:
        """Return once `done`, which is looked at after every change."""
        while not done():
            await self._changed.wait()

    def _wake(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name behind a topic id."""
        return self._names.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """What is known of a partition."""
        info = self.topics.get(topic)
        if info is None or not 0 <= partition < len(info.partitions):
            return None
        return info.partitions[partition]

    def update_brokers(self, controller_id: int, brokers: Iterable[BrokerInfo]) -> None:
        """The live brokers have changed."""
        self.controller_id = controller_id
        self.brokers = {broker.broker_id: broker for broker in brokers}

    def update_partitions(self, states: Iterable[PartitionState]) -> None:
        """Partitions were made or have changed; a topic's come in order of number."""
        for state in states:
            info = self.topics.get(state.topic)
            if info is None or info.topic_id != state.topic_id:
                if info is not None:
                    self._names.pop(info.topic_id, None)
                info = self.topics[state.topic] = TopicInfo(state.topic, state.topic_id)
                self._names[state.topic_id] = state.topic
            if state.partition < len(info.partitions):
                info.partitions[state.partition] = state
            else:
                assert state.partition == len(info.partitions)
                info.partitions.append(state)
        self._wake()

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        info = self.topics.pop(topic, None)
        if info is not None:
            self._names.pop(info.topic_id, None)
        self._wake()
