"""What the controller knows about the cluster: all state that its procedures read and change."""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..partition_state import PartitionState, TopicPartition
from .effects import ReplicaAssignment, StoredState
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


class Endpoint(NamedTuple):
    """The advertised address of one listener of a broker."""

    listener_name: str
    host: str
    port: int
    security_protocol: str


class LiveBroker(NamedTuple):
    """A registered broker. `epoch` is the czxid of its znode."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class TopicNode(NamedTuple):
    """The content of a topic's znode; `topic_id` is None in znodes older than Kafka 2.8."""

    topic_id: bytes | None
    partitions: dict[int, ReplicaAssignment]


ReplicasByBroker = dict[int, list[TopicPartition]]

UNASSIGNED = ReplicaAssignment(())


class Context:
    """The cluster as this controller sees it. `controller_epoch` is this controller's epoch.

    `delete_topic_enable` is the setting delete.topic.enable.
    """

    def __init__(
        self, controller_id: int, controller_epoch: int, *, delete_topic_enable: bool = True
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.delete_topic_enable = delete_topic_enable
        self.is_complete = True
        """Whether every topic in the store could be read when this controller started."""
        self.brokers: dict[int, LiveBroker] = {}
        """All registered brokers, including those that are shutting down."""
        self.shutting_down: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker: the partitions whose replicas are in failed log directories there."""
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        """All partitions that ever had a leader; `offline_replicas` and `is_new` are not set."""
        self.partition_status: dict[TopicPartition, PartitionStatus] = {}
        self.replica_status: dict[TopicPartition, dict[int, ReplicaStatus]] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        self.reassignment_requests: dict[TopicPartition, tuple[int, ...]] = {}
        """The content of /admin/reassign_partitions."""
        self.topics_to_delete: dict[str, None] = {}
        self.deletions_begun: set[str] = set()
        self.deletions_halted: set[str] = set()
        """Topics to delete that have an offline replica or a partition being reassigned."""

    # Brokers.

    @property
    def live(self) -> set[int]:
        """The brokers that may lead: registered and not shutting down."""
        return self.brokers.keys() - self.shutting_down

    def is_online(self, broker_id: int, key: TopicPartition) -> bool:
        """Whether the broker can serve its replica of a partition."""
        if broker_id not in self.brokers or broker_id in self.shutting_down:
            return False
        offline = self.offline_replicas.get(broker_id)
        return offline is None or key not in offline

    def online(
        self, key: TopicPartition, replicas: Iterable[int], *, or_shutting_down: bool = False
    ) -> tuple[int, ...]:
        """Those of a partition's replicas that their brokers can serve."""
        if or_shutting_down:
            offline = self.offline_replicas
            return tuple(r for r in replicas if r in self.brokers and key not in offline.get(r, ()))
        return tuple(r for r in replicas if self.is_online(r, key))

    # Partitions and replicas.

    def partitions(self) -> Iterator[TopicPartition]:
        """All partitions of all topics."""
        for topic, partitions in self.assignments.items():
            for partition in partitions:
                yield topic, partition

    def partitions_of(self, topics: Iterable[str]) -> list[TopicPartition]:
        """All partitions of some topics; unknown topics have none."""
        return [(topic, p) for topic in topics for p in self.assignments.get(topic, ())]

    def assignment(self, key: TopicPartition) -> ReplicaAssignment:
        """A partition's replicas; an unknown partition has none."""
        return self.assignments.get(key[0], {}).get(key[1], UNASSIGNED)

    def set_assignment(self, key: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Replace a partition's assignment, also in its state."""
        self.assignments.setdefault(key[0], {})[key[1]] = assignment
        if state := self.states.get(key):
            self.states[key] = state._replace(
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )

    def replicas_on(self, broker_ids: Collection[int]) -> ReplicasByBroker:
        """The partitions that each broker has a replica of; brokers in ascending order."""
        found: ReplicasByBroker = {broker_id: [] for broker_id in sorted(broker_ids)}
        for topic, partitions in self.assignments.items():
            for partition, assignment in partitions.items():
                for replica in assignment.replicas:
                    if replica in found:
                        found[replica].append((topic, partition))
        return found

    def replicas_of(self, keys: Iterable[TopicPartition]) -> ReplicasByBroker:
        """The replicas of some partitions, by broker; brokers in ascending order."""
        found: ReplicasByBroker = {}
        for key in keys:
            for replica in self.assignment(key).replicas:
                found.setdefault(replica, []).append(key)
        return dict(sorted(found.items()))

    def with_status(self, topics: Iterable[str], status: ReplicaStatus) -> ReplicasByBroker:
        """The replicas of some topics that are in a state."""
        found: ReplicasByBroker = {}
        for key in self.partitions_of(topics):
            for replica, its in self.replica_status.get(key, {}).items():
                if its is status:
                    found.setdefault(replica, []).append(key)
        return dict(sorted(found.items()))

    def is_any_replica(self, topic: str, status: ReplicaStatus) -> bool:
        """Whether a replica of the topic is in that state."""
        return any(
            status in self.replica_status.get(key, {}).values()
            for key in self.partitions_of((topic,))
        )

    def state_from(self, key: TopicPartition, stored: StoredState) -> PartitionState:
        """The content of a state znode combined with the partition's assignment."""
        assignment = self.assignment(key)
        return PartitionState(
            key[0],
            self.topic_ids[key[0]],
            key[1],
            stored.leader,
            stored.leader_epoch,
            stored.isr,
            assignment.replicas,
            stored.partition_epoch,
            stored.controller_epoch,
            (),
            False,
            assignment.adding,
            assignment.removing,
            stored.is_recovering,
        )

    def state_to_change(self, key: TopicPartition, stored: StoredState) -> PartitionState | None:
        """The same, with this controller's epoch; None: a later controller has written it.

        If a later controller exists, its fence stops this one anyway. Otherwise another client has
        written the znode, or the controller epoch was set back: as in Kafka, this partition is left
        alone, and the others are not affected.
        """
        if stored.controller_epoch > self.controller_epoch:
            logger.error(
                "state of a later controller ignored topic=%s partition=%d epoch=%d own_epoch=%d",
                *key,
                stored.controller_epoch,
                self.controller_epoch,
            )
            return None
        return self.state_from(key, stored)._replace(controller_epoch=self.controller_epoch)

    # Topics.

    def add_topic(self, topic: str, node: TopicNode) -> None:
        """Add a topic, which must have an id."""
        assert node.topic_id is not None
        self.topic_ids[topic] = node.topic_id
        self.topic_names[node.topic_id] = topic
        self.assignments[topic] = dict(node.partitions)

    def remove_topic(self, topic: str) -> None:
        """Remove everything about a topic except its reassignment requests."""
        for key in self.partitions_of((topic,)):
            self.states.pop(key, None)
            self.partition_status.pop(key, None)
            self.replica_status.pop(key, None)
            self.reassigning.pop(key, None)
            for offline in self.offline_replicas.values():
                offline.discard(key)
        self.assignments.pop(topic, None)
        topic_id = self.topic_ids.pop(topic, None)
        if topic_id is not None:
            self.topic_names.pop(topic_id, None)
        self.topics_to_delete.pop(topic, None)
        self.deletions_begun.discard(topic)
        self.deletions_halted.discard(topic)

    def is_to_be_deleted(self, topic: str) -> bool:
        """Whether the topic's deletion was requested and is not complete."""
        return topic in self.topics_to_delete
