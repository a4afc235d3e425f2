"""What the controller knows of the cluster: everything its procedures read and change."""

from typing import NamedTuple

from ..partition_state import PartitionState, TopicPartition
from .effects import ReplicaAssignment


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


class Context:
    """The cluster as this controller sees it. `controller_epoch` is its own."""

    def __init__(self, controller_id: int, controller_epoch: int) -> None:
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.brokers: dict[int, LiveBroker] = {}
        self.shutting_down: set[int] = set()
        self.topic_ids: dict[str, bytes] = {}
        self.assignments: dict[str, dict[int, ReplicaAssignment]] = {}
        self.states: dict[TopicPartition, PartitionState] = {}
