"""The controller: it carries topics through their life by what it reads and writes in the store.

A topic appears when somebody writes its node, and goes when somebody asks for it below
/admin/delete_topics. The controller sees both through watches, decides, writes the partitions'
state nodes, and tells the brokers: LeaderAndIsr first, then UpdateMetadata. Every write is fenced
by the version of /controller_epoch, so that a controller that was replaced can change nothing.

Events are handled one at a time by one task; decisions are in `core.elections`. Not here yet:
several brokers (their coming and going, reassignment).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from typing import NamedTuple, NoReturn

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import ZERO_UUID

from .channel import ClusterChannel
from .coordination import znodes
from .coordination.interface import (
    CoordinationError,
    Create,
    Delete,
    NoNode,
    Op,
    Session,
    Set,
    WatchEvent,
)
from .core.elections import ElectionType, elect, elect_offline, first_leader, lose_replica
from .core.partition_state import NO_LEADER, PartitionState
from .metadata import Address, BrokerInfo
from .partition_states import PartitionStates, encode_state
from .runtime import Clock

log = logging.getLogger(__name__)

TopicPartition = tuple[str, int]
Elections = dict[TopicPartition, PartitionState | Refused]
"""What became of partitions for which an election was asked."""


class Reassignment(NamedTuple):
    """A partition whose replicas are being moved."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


class Controller:
    """The controller that runs in this broker, once it is elected."""

    def __init__(
        self, session: Session, channel: ClusterChannel, broker_id: int, clock: Clock
    ) -> None:
        self._session = session
        self._channel = channel
        self._broker_id = broker_id
        self._clock = clock
        self._events: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()
        self._topics: dict[str, znodes.TopicAssignment] = {}
        self._live: set[int] = set()
        self._offline: set[TopicPartition] = set()
        """Replicas of this broker whose log directory has failed."""
        self._states = PartitionStates(session)

    @property
    def controller_epoch(self) -> int:
        """How often there was a controller, with this one; 0 before the election."""
        return self._states.controller_epoch

    @property
    def feature_epoch(self) -> int:
        """The version of /feature, which nobody writes as long as there is one broker."""
        return 0

    async def elect(self) -> None:
        """Become the controller: take /controller and raise the epoch in one transaction.

        Raises: MultiFailed if another broker holds it.
        """
        if await self._session.exists(znodes.CONTROLLER_EPOCH) is None:
            await self._session.create(znodes.CONTROLLER_EPOCH, znodes.encode_controller_epoch(0))
        data, stat = await self._session.get(znodes.CONTROLLER_EPOCH)
        self._states.controller_epoch = znodes.decode_controller_epoch(data) + 1
        self._states.epoch_version = stat.version + 1
        holder = znodes.ControllerNode(self._broker_id, self._clock.wall_ms())
        await self._session.multi(
            [
                Create(znodes.CONTROLLER, holder.encode(), ephemeral=True),
                Set(
                    znodes.CONTROLLER_EPOCH,
                    znodes.encode_controller_epoch(self.controller_epoch),
                    stat.version,
                ),
            ]
        )
        log.info("elected controller broker=%d epoch=%d", self._broker_id, self.controller_epoch)

    async def take_over(self) -> None:
        """Read the cluster's state, finish what a predecessor began, tell the brokers."""
        await self._on_brokers_changed()
        doomed = set(await self._session.children(znodes.DELETE_TOPICS))
        for topic in await self._session.children(znodes.BROKER_TOPICS, self._on_topics_event):
            if topic not in doomed:
                await self._load_topic(topic)
        await self._on_deletions_changed()
        await self._on_log_dirs_failed()

    async def run(self) -> None:
        """Handle events, one at a time, for ever."""
        while True:
            handle = await self._events.get()
            await handle()

    # Producer ids.

    async def allocate_producer_ids(self) -> range:
        """A block of producer ids that no broker has had, also not before a restart.

        Raises: MultiFailed if somebody else is controller by now.
        """
        return await self._states.allocate_producer_ids(self._broker_id)

    # What admin clients ask.

    async def elect_leaders(
        self, partitions: Iterable[TopicPartition] | None, kind: ElectionType
    ) -> Elections:
        """Hold elections, in turn with everything else; None: for all partitions.

        Raises: Refused (NOT_CONTROLLER).
        """
        results: asyncio.Future[Elections] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            asked = self._all_partitions() if partitions is None else partitions
            try:
                held = await self._hold_elections(asked, kind)
            except CoordinationError:
                if not results.done():
                    results.set_exception(Refused(ErrorCode.NOT_CONTROLLER))
                raise
            if not results.done():  # else nobody waits any more
                results.set_result(held)

        self._events.put_nowait(hold)
        return await results

    is_active = True

    def require_active(self) -> None:
        """Raises: Refused (NOT_CONTROLLER): never, as long as there is one broker."""

    async def ask(self, procedure: Callable[..., object]) -> NoReturn:
        """Raises: Refused (NOT_CONTROLLER): what runs procedures is to take this one's place."""
        raise Refused(ErrorCode.NOT_CONTROLLER)

    def reassignments(self) -> Iterator[Reassignment]:
        """The partitions that somebody has begun to move."""
        for topic, assignment in self._topics.items():
            for partition in sorted({*assignment.adding_replicas, *assignment.removing_replicas}):
                yield Reassignment(
                    topic,
                    partition,
                    assignment.partitions.get(partition, ()),
                    assignment.adding_replicas.get(partition, ()),
                    assignment.removing_replicas.get(partition, ()),
                )

    def _all_partitions(self) -> list[TopicPartition]:
        topics = self._topics.items()
        return [(topic, partition) for topic, node in topics for partition in node.partitions]

    # Watches. They fire once: the handler reads again and sets the next.

    def _on_brokers_event(self, event: WatchEvent) -> None:
        self._events.put_nowait(self._on_brokers_changed)

    def _on_topics_event(self, event: WatchEvent) -> None:
        self._events.put_nowait(self._on_topics_changed)

    def _on_deletions_event(self, event: WatchEvent) -> None:
        self._events.put_nowait(self._on_deletions_changed)

    def _on_log_dir_event(self, event: WatchEvent) -> None:
        self._events.put_nowait(self._on_log_dirs_failed)

    def _on_topic_event(self, event: WatchEvent) -> None:
        topic = event.path.rpartition("/")[2]
        self._events.put_nowait(lambda: self._on_topic_changed(topic))

    async def _on_brokers_changed(self) -> None:
        brokers = []
        for name in await self._session.children(znodes.BROKER_IDS, self._on_brokers_event):
            data, _ = await self._session.get(znodes.broker_path(int(name)))
            registration = znodes.BrokerRegistration.decode(data)
            endpoints = {e.listener_name: Address(e.host, e.port) for e in registration.endpoints}
            brokers.append(BrokerInfo(int(name), registration.rack, endpoints))
        self._live = {broker.broker_id for broker in brokers}
        self._channel.update_brokers(self._broker_id, brokers)

    async def _on_topics_changed(self) -> None:
        names = await self._session.children(znodes.BROKER_TOPICS, self._on_topics_event)
        for topic in names:
            if topic not in self._topics:
                await self._load_topic(topic)

    async def _on_topic_changed(self, topic: str) -> None:
        if topic in self._topics:
            await self._load_topic(topic)

    async def _on_deletions_changed(self) -> None:
        for topic in await self._session.children(znodes.DELETE_TOPICS, self._on_deletions_event):
            await self._delete_topic(topic)

    # Log directories that fail.

    async def _on_log_dirs_failed(self) -> None:
        """A broker has lost a directory: which of its replicas are left, its answers tell."""
        events = await self._session.children(znodes.LOG_DIR_EVENTS, self._on_log_dir_event)
        if not events:
            return
        for topic, assignment in list(self._topics.items()):
            read = [await self._states.read(topic, assignment, p) for p in assignment.partitions]
            await self._tell([state for state in read if state is not None])
        await self._states.write([Delete(f"{znodes.LOG_DIR_EVENTS}/{name}") for name in events])

    async def _tell(self, states: Sequence[PartitionState]) -> list[PartitionState]:
        """Tell the brokers what was decided; what lies in a failed directory gets another leader.

        Or none: there is only one replica that can lead as yet. Returns what they know now.
        """
        offline = await self._channel.leader_and_isr([s for s in states if s.leader != NO_LEADER])
        self._offline |= offline
        told = []
        for state in states:
            key = state.topic, state.partition
            if key in offline and state.leader == self._broker_id:
                state = await self._without_leader(state)
            told.append(state._replace(offline_replicas=self._offline_replicas(state)))
        self._channel.update_partitions(told)
        return told

    async def _without_leader(self, state: PartitionState) -> PartitionState:
        topic, partition = state.topic, state.partition
        changed, _ = await self._states.change(
            topic,
            self._topics[topic],
            partition,
            lambda state: lose_replica(state, self._broker_id),
        )
        log.error(
            "no leader, the log directory has failed topic=%s partition=%d epoch=%d",
            topic,
            partition,
            changed.leader_epoch,
        )
        return changed

    def _offline_replicas(self, state: PartitionState) -> tuple[int, ...]:
        live = self._live_for(state.topic, state.partition)
        return tuple(replica for replica in state.replicas if replica not in live)

    # A topic's life.

    async def _load_topic(self, topic: str) -> None:
        """Read a topic's assignment; partitions without a state node are new ones."""
        try:
            data, _ = await self._session.get(znodes.topic_path(topic), self._on_topic_event)
        except NoNode:
            return  # deleted meanwhile: the deletion is another event
        assignment = znodes.TopicAssignment.decode(data)
        known = self._topics.get(topic)
        self._topics[topic] = assignment
        unseen = {
            partition: replicas
            for partition, replicas in assignment.partitions.items()
            if known is None or partition not in known.partitions
        }
        nodes = await self._partition_nodes(topic)
        states = []
        ops: list[Op] = [] if nodes is not None else [Create(znodes.partitions_path(topic))]
        for partition, replicas in unseen.items():
            state = None
            if nodes is not None and partition in nodes:
                state = await self._states.read(topic, assignment, partition)
            else:
                ops.append(Create(znodes.partition_path(topic, partition)))
            if state is not None and state.leader == NO_LEADER:
                state, _ = await self._states.change(
                    topic, assignment, partition, lambda state: elect_offline(state, self._live)
                )
            if state is None:
                state = self._first_state(topic, assignment, partition, replicas)
                if state.leader != NO_LEADER:
                    path = znodes.partition_state_path(topic, partition)
                    ops.append(Create(path, encode_state(state)))
            states.append(state)
        await self._states.write(ops)
        await self._tell(states)

    async def _partition_nodes(self, topic: str) -> set[int] | None:
        """Which partitions have a node; None if there is not even their parent."""
        try:
            return set(map(int, await self._session.children(znodes.partitions_path(topic))))
        except NoNode:
            return None

    def _first_state(
        self,
        topic: str,
        assignment: znodes.TopicAssignment,
        partition: int,
        replicas: tuple[int, ...],
    ) -> PartitionState:
        """Elect the first leader of a new partition, or none if no replica is alive."""
        leadership = first_leader(replicas, self._live)
        if leadership.leader == NO_LEADER:
            log.warning("no live replica topic=%s partition=%d", topic, partition)
        return PartitionState(
            topic=topic,
            topic_id=assignment.topic_id or ZERO_UUID,
            partition=partition,
            leader=leadership.leader,
            leader_epoch=0,
            isr=leadership.isr,
            replicas=replicas,
            partition_epoch=0,
            controller_epoch=self.controller_epoch,
            is_new=True,
        )

    async def _delete_topic(self, topic: str) -> None:
        """Stop its replicas, then remove its nodes; the request to delete it goes last.

        Replicas that are offline can't be deleted: then the deletion waits, as in Apache Kafka.
        """
        if any(key[0] == topic for key in self._offline):
            log.warning("deletion waits for a log directory that has failed topic=%s", topic)
            return
        self._topics.pop(topic, None)
        await self._channel.stop_replicas(topic)
        ops: list[Op] = []
        if await self._session.exists(znodes.topic_path(topic)) is not None:
            ops += [Delete(path) for path in await self._below(znodes.topic_path(topic))]
        if await self._session.exists(znodes.topic_config_path(topic)) is not None:
            ops.append(Delete(znodes.topic_config_path(topic)))
        ops.append(Delete(znodes.delete_topic_path(topic)))
        await self._states.write(ops)
        self._channel.forget_topic(topic)
        log.info("topic deleted topic=%s", topic)

    async def _below(self, path: str) -> list[str]:
        """A node and all below it, children before parents."""
        paths = []
        for child in await self._session.children(path):
            paths += await self._below(f"{path}/{child}")
        return [*paths, path]

    # Elections.

    async def _hold_elections(
        self, partitions: Iterable[TopicPartition], kind: ElectionType
    ) -> Elections:
        results: Elections = {}
        doomed = set(await self._session.children(znodes.DELETE_TOPICS))
        for topic, partition in partitions:
            try:
                results[topic, partition] = await self._elect(topic, partition, kind, doomed)
            except Refused as refused:
                results[topic, partition] = refused
        states = [state for state in results.values() if isinstance(state, PartitionState)]
        if states:
            told = await self._tell(states)
            results.update(((state.topic, state.partition), state) for state in told)
        return results

    async def _elect(
        self, topic: str, partition: int, kind: ElectionType, doomed: Container[str]
    ) -> PartitionState:
        """Elect a leader and write it down; the brokers are yet to be told.  Raises: Refused."""
        assignment = self._topics.get(topic)
        if assignment is None or partition not in assignment.partitions:
            raise Refused(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no {topic!r}-{partition}"
            )
        if topic in doomed:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic is being deleted")
        elected, leadership = await self._states.change(
            topic,
            assignment,
            partition,
            lambda state: elect(state, kind, self._live_for(topic, partition)),
        )
        log.info(
            "leader elected topic=%s partition=%d leader=%d epoch=%d unclean=%s",
            topic,
            partition,
            elected.leader,
            elected.leader_epoch,
            leadership.is_unclean,
        )
        return elected

    def _live_for(self, topic: str, partition: int) -> set[int]:
        """The brokers that can lead a partition: alive, and its log directory is online."""
        offline = (topic, partition) in self._offline
        return self._live - {self._broker_id} if offline else self._live
