"""What the controller knows of the cluster: everything its procedures read and change."""

import logging
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from ..partition_state import PartitionState, TopicPartition
from .effects import ReplicaAssignment, StoredState
from .status import PartitionStatus, ReplicaStatus

logger = logging.getLogger(__name__)


class Endpoint(NamedTuple):
    """One listener of a broker, as others reach it."""

    listener_name: str
    host: str
    port: int
    security_protocol: str


class LiveBroker(NamedTuple):
    """A registered broker. `epoch` is the czxid of its node."""

    broker_id: int
    epoch: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None


class TopicNode(NamedTuple):
    """A topic as its node says; `topic_id` is None in nodes older than Kafka 2.8."""

    topic_id: bytes | None
    partitions: dict[int, ReplicaAssignment]


ReplicasByBroker = dict[int, list[TopicPartition]]

UNASSIGNED = ReplicaAssignment(())


class Context:
    """The cluster as this controller sees it. `controller_epoch` is its own.

    `delete_topic_enable` is the setting of that name.
    """

    def __init__(
        self, controller_id: int, controller_epoch: int, *, delete_topic_enable: bool = True
    ) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.delete_topic_enable = delete_topic_enable
        self.is_complete = True
        """Whether every topic of the store was legible when this controller began."""
        self.brokers: dict[int, LiveBroker] = {}
        """All registered ones, also those that are shutting down."""
        self.shutting_down: set[int] = set()
        self.offline_replicas: dict[int, set[TopicPartition]] = {}
        """By broker: what lies in log directories that have failed there."""
        self.topic_ids: dict[str, bytes] = {}
        self.topic_names: dict[bytes, str] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
        """Of all that ever had a leader; `offline_replicas` and `is_new` are not kept in them."""
        self.partition_status: dict[TopicPartition, PartitionStatus] = {}
        self.replica_status: dict[TopicPartition, dict[int, ReplicaStatus]] = {}
        self.reassigning: dict[TopicPartition, None] = {}
        self.reassignment_requests: dict[TopicPartition, tuple[int, ...]] = {}
        """What /admin/reassign_partitions holds."""
        self.topics_to_delete: dict[str, None] = {}
        self.deletions_begun: set[str] = set()
        self.deletions_halted: set[str] = set()
        """Topics to delete of which a replica is offline or a partition is being reassigned."""

    # Brokers.

    @property
    def live(self) -> set[int]:
        """The brokers that may lead: alive, not shutting down."""
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
        """Those of a partition's replicas that can be served."""
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
        """All partitions of some topics, also of such as are not there."""
        return [(topic, p) for topic in topics for p in self.assignments.get(topic, ())]

    def assignment(self, key: TopicPartition) -> ReplicaAssignment:
        """A partition's replicas; of an unknown one none."""
        return self.assignments.get(key[0], {}).get(key[1], UNASSIGNED)

    def set_assignment(self, key: TopicPartition, assignment: ReplicaAssignment) -> None:
        """Give a partition other replicas."""
        self.assignments.setdefault(key[0], {})[key[1]] = assignment
        if state := self.states.get(key):
            self.states[key] = state._replace(
                replicas=assignment.replicas,
                adding_replicas=assignment.adding,
                removing_replicas=assignment.removing,
            )

    def replicas_on(self, broker_ids: Collection[int]) -> ReplicasByBroker:
        """All partitions of which each broker has a replica; brokers in order."""
        found: ReplicasByBroker = {broker_id: [] for broker_id in sorted(broker_ids)}
        for topic, partitions in self.assignments.items():
            for partition, assignment in partitions.items():
                for replica in assignment.replicas:
                    if replica in found:
                        found[replica].append((topic, partition))
        return found

    def replicas_of(self, keys: Iterable[TopicPartition]) -> ReplicasByBroker:
        """The replicas of some partitions, by broker; brokers in order."""
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
        """What a state node says, together with the partition's replicas."""
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
        """The same, to be written by this controller; None: a later controller has written it.

        If there is one its fence stops this one anyway. If not, somebody has put the node there,
        or has set the epoch back: as in Kafka that partition is left alone, and no other.
        """
        if stored.controller_epoch > self.controller_epoch:
            logger.error(
                "state is of a later controller topic=%s partition=%d epoch=%d own_epoch=%d",
                *key,
                stored.controller_epoch,
                self.controller_epoch,
            )
            return None
        return self.state_from(key, stored)._replace(controller_epoch=self.controller_epoch)

    # Topics.

    def add_topic(self, topic: str, node: TopicNode) -> None:
        """Get to know a topic, which has an id."""
        assert node.topic_id is not None
        self.topic_ids[topic] = node.topic_id
        self.topic_names[node.topic_id] = topic
        self.assignments[topic] = dict(node.partitions)

    def remove_topic(self, topic: str) -> None:
        """Forget all of a topic."""
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
        """Whether somebody has asked for the topic's deletion."""
        return topic in self.topics_to_delete
