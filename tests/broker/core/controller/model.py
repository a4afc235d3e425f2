"""A store and brokers in memory, on which the controller's procedures run.

`Store` keeps what the state nodes, topic nodes and requests of admin clients hold, with versions;
it may change between any two effects (`before`). `Cluster` adds brokers that remember what they
are told and answer as Kafka's would.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.context import Context, Endpoint, LiveBroker, TopicNode
from odradek.broker.core.controller.effects import (
    Breathe,
    CreateStates,
    DeleteTopicNodes,
    DropDeletionRequests,
    Effect,
    KeepReassignmentRequests,
    Procedure,
    ReadStates,
    ReadUncleanElection,
    ReplicaAssignment,
    Send,
    StoredState,
    WriteAssignment,
    WriteStates,
)
from odradek.broker.core.controller.requests import BrokerRequests
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.protocol.errors import ErrorCode

T = TypeVar("T")


def broker(broker_id: int, epoch: int = 1) -> LiveBroker:
    """A registration."""
    endpoint = Endpoint("PLAINTEXT", f"host{broker_id}", 9092, "PLAINTEXT")
    return LiveBroker(broker_id, epoch, (endpoint,))


def topic_id(topic: str) -> bytes:
    """The id that this model gives a topic."""
    return topic.encode().ljust(16, b"\0")[:16]


def topic_node(topic: str, *replicas: Iterable[int]) -> TopicNode:
    """A topic whose partitions have these replicas."""
    partitions = {p: ReplicaAssignment(tuple(some)) for p, some in enumerate(replicas)}
    return TopicNode(topic_id(topic), partitions)


@dataclass
class Store:
    """The nodes that the controller writes; every write is counted in `log`."""

    topics: dict[str, TopicNode] = field(default_factory=dict)
    topic_versions: dict[str, int] = field(default_factory=dict)
    states: dict[TopicPartition, StoredState] = field(default_factory=dict)
    deletions: set[str] = field(default_factory=set)
    reassignments: dict[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    unclean_topics: set[str] = field(default_factory=set)
    controller_epoch: int = 0
    log: list[tuple[str, object]] = field(default_factory=list)
    before: Callable[[Effect], None] = lambda effect: None

    def perform(self, effect: Effect, controller_epoch: int) -> Any:
        """Do to the store what an effect says; returns what the procedure is told."""
        self.before(effect)
        if not isinstance(effect, ReadStates | ReadUncleanElection):
            assert controller_epoch == self.controller_epoch, "the fence lets nobody else write"
        match effect:
            case ReadStates(partitions):
                assert partitions
                return {key: self.states[key] for key in partitions if key in self.states}
            case CreateStates(states):
                assert states
                return {state.key for state in states if not self._create(state)}
            case WriteStates(states):
                assert states
                return {state.key for state in states if not self._write(state)}
            case ReadUncleanElection(topics):
                return {topic: topic in self.unclean_topics for topic in topics}
            case WriteAssignment(topic, its_id, partitions):
                assert topic in self.topics
                self.topics[topic] = TopicNode(its_id, dict(partitions))
                self.topic_versions[topic] = self.topic_versions.get(topic, 0) + 1
                self.log.append(("assignment", (topic, dict(partitions))))
            case DeleteTopicNodes(topic):
                self._delete(topic)
            case DropDeletionRequests(topics):
                self.deletions.difference_update(topics)
                self.log.append(("drop", tuple(topics)))
            case KeepReassignmentRequests(partitions):
                self.reassignments = dict(partitions)
                self.log.append(("requests", dict(partitions)))
            case _:
                raise AssertionError(effect)
        return None

    def _create(self, state: PartitionState) -> bool:
        assert state.partition_epoch == 0
        if state.key in self.states:
            return False
        self._put(state)
        return True

    def _write(self, state: PartitionState) -> bool:
        node = self.states.get(state.key)
        if node is None or node.partition_epoch != state.partition_epoch - 1:
            return False
        self._put(state)
        return True

    def _put(self, state: PartitionState) -> None:
        self.states[state.key] = StoredState(
            state.leader,
            state.leader_epoch,
            state.isr,
            state.controller_epoch,
            state.partition_epoch,
            state.is_recovering,
        )
        self.log.append(("state", (state.key, self.states[state.key])))

    def _delete(self, topic: str) -> None:
        self.topics.pop(topic, None)
        self.topic_versions.pop(topic, None)
        self.deletions.discard(topic)
        for key in [key for key in self.states if key[0] == topic]:
            del self.states[key]
        self.log.append(("delete", topic))


class Sent(NamedTuple):
    """Requests as the shell would send them."""

    request: BrokerRequests
    controller_epoch: int
    broker_epoch: int
    live: tuple[int, ...]


@dataclass
class Told:
    """A broker as it sees itself: what it was told last of each replica."""

    replicas: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    metadata: dict[TopicPartition, PartitionState] = field(default_factory=dict)
    failed: set[TopicPartition] = field(default_factory=set)
    """Lie in a log directory that has failed."""


class Crash(Exception):
    """The controller is gone in the middle of a procedure."""


class Cluster:
    """A store, brokers, and at most one controller at a time."""

    crash_after: int | None = None
    """After how many effects the controller crashes; None: never."""

    def __init__(self, *broker_ids: int, delete_topic_enable: bool = True) -> None:
        self.store = Store()
        self.delete_topic_enable = delete_topic_enable
        self.brokers = {broker_id: broker(broker_id) for broker_id in broker_ids}
        self.told: dict[int, Told] = {broker_id: Told() for broker_id in broker_ids}
        self.sent: list[BrokerRequests] = []
        self.trace: list[Sent] = []
        self.effects: list[Effect] = []
        self.answers: list[tuple[int, BrokerRequests]] = []
        self.context = Context(0, 0)

    # Running procedures.

    def run(self, procedure: Procedure[T]) -> T:
        """Run a procedure to its end."""
        told: Any = None
        while True:
            if self.crash_after is not None:
                self.crash_after -= 1
                if self.crash_after < 0:
                    procedure.close()
                    raise Crash
            try:
                effect = procedure.send(told)
            except StopIteration as stop:
                result: T = stop.value
                return result
            self.effects.append(effect)
            match effect:
                case Breathe():
                    told = None
                case Send(requests):
                    self._send(requests)
                    told = None
                case _:
                    told = self.store.perform(effect, self.context.controller_epoch)

    def take(self) -> list[BrokerRequests]:
        """What was sent since the last time."""
        sent, self.sent = self.sent, []
        return sent

    def _send(self, requests: Iterable[BrokerRequests]) -> None:
        for request in requests:
            assert request.broker_id in self.context.brokers
            self.sent.append(request)
            epoch = self.context.brokers[request.broker_id].epoch
            live = tuple(sorted(self.context.brokers))
            self.trace.append(Sent(request, self.context.controller_epoch, epoch, live))
            self.answers.append((request.broker_id, request))

    # What brokers do with requests.

    def deliver(self) -> None:
        """Let brokers handle what was sent, and the controller what they answer."""
        while self.answers:
            broker_id, request = self.answers.pop(0)
            if broker_id not in self.brokers:
                continue
            led, deleted = self._handle(self.told[broker_id], request)
            if led:
                self.run(procedures.leader_and_isr_answered(self.context, broker_id, led))
            if deleted:
                self.run(procedures.stop_replica_answered(self.context, broker_id, deleted))

    def _handle(
        self, told: Told, request: BrokerRequests
    ) -> tuple[dict[TopicPartition, ErrorCode], dict[TopicPartition, ErrorCode]]:
        led = {}
        for state in request.leader_and_isr:
            assert request.broker_id in state.replicas
            if state.key in told.failed and not state.is_new:
                led[state.key] = ErrorCode.KAFKA_STORAGE_ERROR
                continue
            mine = told.replicas.get(state.key)
            if mine is not None and mine.leader_epoch >= state.leader_epoch:
                led[state.key] = ErrorCode.STALE_CONTROLLER_EPOCH
                continue
            told.replicas[state.key] = state
            led[state.key] = ErrorCode.NONE
        if request.is_full:
            told.metadata.clear()
        for state in request.update_metadata or ():
            if state.leader == -2:
                told.metadata.pop(state.key, None)
            else:
                told.metadata[state.key] = state
        deleted = {}
        for stopped in request.stop_replicas:
            code = ErrorCode.NONE
            if stopped.key in told.failed:
                code = ErrorCode.KAFKA_STORAGE_ERROR
            elif stopped.delete:
                told.replicas.pop(stopped.key, None)
            if stopped.delete:
                deleted[stopped.key] = code
        return led, deleted

    # Things that happen.

    def fail_over(self, controller_id: int = 1, preferred: Collection[TopicPartition] = ()) -> None:
        """A broker becomes controller and reads what there is."""
        self.answers.clear()
        self.crash_after = None
        self.store.controller_epoch += 1
        self.context = Context(
            controller_id,
            self.store.controller_epoch,
            delete_topic_enable=self.delete_topic_enable,
        )
        snapshot = procedures.Snapshot(
            dict(self.brokers),
            dict(self.store.topics),
            dict(self.store.states),
            set(self.store.deletions),
            dict(self.store.reassignments),
            preferred,
        )
        self.run(procedures.fail_over(self.context, snapshot))

    def create(self, topic: str, *replicas: Iterable[int]) -> None:
        """Somebody writes a topic's node, and the controller notices."""
        self.store.topics[topic] = node = topic_node(topic, *replicas)
        self.run(procedures.topics_changed(self.context, {topic: node}, ()))

    def extend(self, topic: str, *replicas: Iterable[int]) -> None:
        """Somebody adds partitions to a topic's node, and the controller notices."""
        node = self.store.topics[topic]
        first = len(node.partitions)
        added = {first + n: ReplicaAssignment(tuple(some)) for n, some in enumerate(replicas)}
        node = TopicNode(node.topic_id, {**node.partitions, **added})
        self.store.topics[topic] = node
        self.store.topic_versions[topic] = self.store.topic_versions.get(topic, 0) + 1
        self.run(procedures.topic_changed(self.context, topic, node))

    def delete(self, *topics: str) -> None:
        """Somebody asks for the deletion of topics, and the controller notices."""
        self.store.deletions.update(topics)
        asked = sorted(self.store.deletions)
        enabled = self.delete_topic_enable
        self.run(procedures.deletions_asked(self.context, asked, enabled=enabled))

    def kill(self, *broker_ids: int) -> None:
        """Brokers are gone; what they know is lost, but not what lies on their disks."""
        for broker_id in broker_ids:
            del self.brokers[broker_id]
        self.changed()

    def start(self, *broker_ids: int) -> None:
        """Brokers (again) register."""
        for broker_id in broker_ids:
            self._restart(broker_id)
        self.changed()

    bounce = start

    def start_as(self, broker_id: int, epoch: int) -> None:
        """A broker registers and gets this epoch; the controller notices, if there is one."""
        self.brokers[broker_id] = broker(broker_id, epoch)
        self.told[broker_id] = Told()
        if self.store.controller_epoch:
            self.changed()

    def _restart(self, broker_id: int) -> None:
        before = self.told.get(broker_id, Told())
        epoch = self.brokers[broker_id].epoch + 1 if broker_id in self.brokers else self._epoch()
        self.brokers[broker_id] = broker(broker_id, epoch)
        # Its session had ended, the process lives on.
        self.told[broker_id] = Told(metadata=before.metadata, failed=before.failed)

    def _epoch(self) -> int:
        return 1 + max((b.epoch for b in self.brokers.values()), default=0)

    def changed(self) -> None:
        """The controller notices the registrations."""
        self.run(procedures.brokers_changed(self.context, dict(self.brokers)))

    def alter(self, key: TopicPartition, *isr: int, **other: Any) -> PartitionState | ErrorCode:
        """The leader asks for other in-sync replicas, as the controller knows the partition."""
        state = self.context.states[key]
        leader = other.pop("leader", state.leader)
        change = procedures.IsrChange(
            *key, state.leader_epoch, state.partition_epoch, isr, is_recovering=False
        )._replace(**other)
        epoch = self.context.brokers[leader].epoch
        procedure = procedures.alter_partitions(self.context, leader, epoch, [change])
        return self.run(procedure)[key]

    # Looking.

    def state(self, topic: str, partition: int = 0) -> tuple[int, int, tuple[int, ...], int]:
        """A state node: leader, leader epoch, in-sync replicas, version."""
        node = self.store.states[topic, partition]
        return node.leader, node.leader_epoch, node.isr, node.partition_epoch

    def set_state(self, key: TopicPartition, **values: Any) -> None:
        """Write a state node as somebody else would: its version rises."""
        node = self.store.states[key]
        values.setdefault("partition_epoch", node.partition_epoch + 1)
        self.store.states[key] = node._replace(**values)
        self.store.log.append(("state", (key, self.store.states[key])))
