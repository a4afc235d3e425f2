"""How the controller's decisions reach the brokers.

With one broker they are direct calls; several will get LeaderAndIsr, UpdateMetadata and StopReplica
over the wire, in this order.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from . import roles
from .coordination.interface import Session
from .core.controller.requests import LEADER_EPOCH_DELETED, StoppedReplica
from .core.partition_state import PartitionState, TopicPartition
from .core.topic_names import GROUP_OFFSETS_TOPIC
from .metadata import BrokerInfo
from .node import Node


class ClusterChannel(Protocol):
    """How decisions reach the brokers."""

    async def leader_and_isr(self, states: Sequence[PartitionState]) -> set[tuple[str, int]]:
        """Lead or follow these partitions; which of them are offline (KAFKA_STORAGE_ERROR)."""
        ...

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic and delete its logs."""

    def update_brokers(self, controller_id: int, brokers: Iterable[BrokerInfo]) -> None:
        """These brokers are alive."""

    def update_partitions(self, states: Sequence[PartitionState]) -> None:
        """These partitions were made or have changed."""

    def forget_topic(self, topic: str) -> None:
        """This topic was deleted."""


class LocalChannel:
    """The controller's way to the broker in its own process: direct calls."""

    def __init__(self, node: Node, session: Session) -> None:
        self._node = node
        self._session = session

    async def leader_and_isr(self, states: Sequence[PartitionState]) -> set[tuple[str, int]]:
        """Lead these partitions; which of them are offline."""
        node = self._node
        topics = list(dict.fromkeys(state.topic for state in states))
        await node.replicas.read_overrides(topics, self._session)
        told = roles.Roles(
            node.replicas,
            node.clock,
            broker_id=node.broker_id,
            live=(node.broker_id,),
            tell=self._told,
        )
        await told.take(states)
        return {state.key for state in states} & node.replicas.offline

    def _told(self, keys: Sequence[TopicPartition]) -> None:
        for key in keys:
            if key[0] == GROUP_OFFSETS_TOPIC:
                self._node.groups.lead(self._node.replicas.partitions[key])

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic and delete its logs."""
        replicas = self._node.replicas
        self._node.groups.resign(topic)
        kept = {(one.topic, one.partition) for one in replicas.log_dirs.all_logs()}
        lost = {key for data_dir in replicas.log_dirs.online for key in data_dir.unserved}
        known = {*replicas.partitions, *replicas.unmade, *kept, *lost}
        doomed = sorted(key for key in known if key[0] == topic)
        stopped = [StoppedReplica(*key, LEADER_EPOCH_DELETED, True) for key in doomed]
        await roles.stop(replicas, self._node.clock, stopped, lambda keys: None)

    def update_brokers(self, controller_id: int, brokers: Iterable[BrokerInfo]) -> None:
        """These brokers are alive."""
        self._node.metadata.update_brokers(controller_id, brokers)

    def update_partitions(self, states: Sequence[PartitionState]) -> None:
        """These partitions were made or have changed."""
        self._node.metadata.update_partitions(states)

    def forget_topic(self, topic: str) -> None:
        """This topic was deleted."""
        self._node.metadata.forget_topic(topic)
        self._node.groups.forget_topic(topic)
