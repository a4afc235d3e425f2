"""What this broker tells clients about the cluster: brokers, topics, leaders.

It is filled only by the controller's UpdateMetadata, so it may be out of date, as in Kafka.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID

from ..core.partition_state import LEADER_IS_DELETED, PartitionState
from ..core.waiters import Waiters
from ..net.call import CloseConnection

FIRST_WORD_WITHIN_S: Final = 3.0
"""Long enough for a live controller, and shorter than any client waits for an answer."""


class Address(NamedTuple):
    """The address of a broker's listener."""

    host: str
    port: int
    security_protocol: int = 0
    """Kafka's number of the protocol; 0 is PLAINTEXT."""


class BrokerInfo(NamedTuple):
    """A live broker."""

    broker_id: int
    rack: str | None
    endpoints: Mapping[str, Address]
    """By listener name."""


ENTRANCE: Final = "entrance "
"""How the names of entrances begin; no listener has such a name."""


def is_entrance(name: str) -> bool:
    """Whether endpoints of this name are an entrance, and not those of a listener."""
    return name.startswith(ENTRANCE)


class TopicInfo:
    """A topic with the partitions that the controller has announced."""

    __slots__ = ("_by_number", "_sorted", "name", "topic_id")

    def __init__(self, name: str, topic_id: bytes) -> None:
        self.name = name
        self.topic_id = topic_id
        self._by_number: dict[int, PartitionState] = {}
        self._sorted: list[PartitionState] | None = []

    @property
    def partitions(self) -> Sequence[PartitionState]:
        """The partitions in order of number; some may still be missing."""
        if self._sorted is None:
            self._sorted = [state for _, state in sorted(self._by_number.items())]
        return self._sorted

    def find(self, partition: int) -> PartitionState | None:
        """The partition of this number."""
        return self._by_number.get(partition)

    def put(self, state: PartitionState) -> None:
        """Add or replace a partition."""
        self._by_number[state.partition] = state
        self._sorted = None

    def remove(self, partition: int) -> bool:
        """Remove a partition; whether it was the last one."""
        self._by_number.pop(partition, None)
        self._sorted = None
        return not self._by_number


class MetadataCache:
    """The cluster as the controller last described it."""

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.controller_id = -1
        """-1: there has been no controller since this broker started."""
        self.brokers: dict[int, BrokerInfo] = {}
        self.topics: dict[str, TopicInfo] = {}
        self._names: dict[bytes, str] = {}
        self._changed = asyncio.Event()
        self.changes = Waiters()
        """Told of every change of any topic."""
        self._one_by_one = asyncio.Lock()
        self.is_told = False
        """Whether a controller has announced all brokers and partitions to this broker."""
        self.version = 0
        """Increases with every change of any topic."""
        self._entrance: tuple[str, Mapping[int, Address]] | None = None

    async def wait_until(self, done: Callable[[], bool]) -> None:
        """Return once `done` is true; it is checked after every change."""
        while not done():
            await self._changed.wait()

    async def wait_for_first_word(self) -> None:
        """Return once a controller has announced everything; at once if it has.

        Before that, Kafka tells clients that there are no brokers, or no topics. librdkafka, which
        forgets all brokers when none is left, then asks again only after minutes. Consumers that
        subscribe by pattern give up their assignment.  Raises: CloseConnection if it takes too
        long: the client then asks another broker, or again.
        """
        if self.is_told:
            return
        try:
            async with asyncio.timeout(FIRST_WORD_WITHIN_S):
                await self.wait_until(lambda: self.is_told)
        except TimeoutError:
            if not self.is_told:  # it may have been told just as the timeout fired in a busy loop
                raise CloseConnection("no controller has told this broker of all yet") from None
        # Many requests may have waited, and each answer may be large: one per turn of the loop.
        async with self._one_by_one:
            await asyncio.sleep(0)

    def _wake(self) -> None:
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()
        self.changes.wake()

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name behind a topic id."""
        return self._names.get(topic_id)

    def partition(self, topic: str, partition: int) -> PartitionState | None:
        """The known state of a partition."""
        info = self.topics.get(topic)
        return None if info is None else info.find(partition)

    def leader_error(self, state: PartitionState, listener_name: str) -> ErrorCode:
        """Why clients of a listener can't reach a partition's leader, or NONE."""
        leader = self.brokers.get(state.leader)
        if leader is None:
            return ErrorCode.LEADER_NOT_AVAILABLE
        reached = listener_name in leader.endpoints
        return ErrorCode.NONE if reached else ErrorCode.LISTENER_NOT_FOUND

    def is_reached(self, broker_id: int, listener_name: str) -> bool:
        """Whether a broker is alive and has the listener."""
        broker = self.brokers.get(broker_id)
        return broker is not None and listener_name in broker.endpoints

    # Called for the controller's requests.

    def update_brokers(self, controller_id: int, brokers: Iterable[BrokerInfo]) -> bool:
        """Set the live brokers; whether that changes anything."""
        live = {broker.broker_id: self._with_entrance(broker) for broker in brokers}
        changed = live != self.brokers
        self.controller_id = max(controller_id, -1)
        self.brokers = live
        return changed

    def open_entrance(self, name: str, addresses: Mapping[int, Address]) -> None:
        """Name other addresses of the brokers to clients that come by this entrance, and no longer
        those of an earlier one."""
        self._entrance = name, addresses
        self.brokers = {
            number: self._with_entrance(broker) for number, broker in self.brokers.items()
        }

    def _with_entrance(self, broker: BrokerInfo) -> BrokerInfo:
        if self._entrance is None:
            return broker
        name, addresses = self._entrance
        listeners = {key: value for key, value in broker.endpoints.items() if not is_entrance(key)}
        if broker.broker_id in addresses:
            listeners[name] = addresses[broker.broker_id]
        return broker._replace(endpoints=listeners)

    def update_partitions(
        self, states: Iterable[PartitionState], *, more_to_come: bool = False
    ) -> list[str]:
        """Add, change or remove partitions; the topics that have no partition left."""
        self.is_told = self.is_told or not more_to_come
        gone = []
        for state in states:
            if state.leader == LEADER_IS_DELETED:
                if self._remove(state):
                    gone.append(state.topic)
            else:
                self._topic_of(state).put(state)
        self._wake()
        return gone

    def _topic_of(self, state: PartitionState) -> TopicInfo:
        """The partition's topic; a new one if the topic of this name has another id."""
        info = self.topics.get(state.topic)
        topic_id = state.topic_id
        if info is not None and info.topic_id == topic_id:
            return info
        if info is None or ZERO_UUID not in (info.topic_id, topic_id):
            if info is not None:
                self._names.pop(info.topic_id, None)
            info = self.topics[state.topic] = TopicInfo(state.topic, topic_id)
        else:  # the same topic, but only now with an id, or from a sender that knows no ids
            self._names.pop(info.topic_id, None)
            info.topic_id = topic_id
        if topic_id != ZERO_UUID:
            self._names[topic_id] = state.topic
        return info

    def _remove(self, state: PartitionState) -> bool:
        info = self.topics.get(state.topic)
        if info is None or not info.remove(state.partition):
            return False
        self._names.pop(info.topic_id, None)
        del self.topics[state.topic]
        return True

    def forget_topic(self, topic: str) -> None:
        """Forget a deleted topic."""
        info = self.topics.pop(topic, None)
        if info is not None:
            self._names.pop(info.topic_id, None)
        self._wake()

    def forget_topics_but(self, topics: Collection[str]) -> list[str]:
        """Keep only these topics; the removed ones."""
        gone = [topic for topic in self.topics if topic not in topics]
        for topic in gone:
            self.forget_topic(topic)
        return gone
