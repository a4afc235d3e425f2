"""How the controller's decisions reach the brokers.

With one broker they are direct calls; several will get LeaderAndIsr, UpdateMetadata and StopReplica
over the wire, in this order.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from .coordination.interface import Session
from .core.partition_state import PartitionState
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
        replicas = self._node.replicas
        offline = await replicas.leader_and_isr(states, self._session)
        for state in states:
            if state.topic != GROUP_OFFSETS_TOPIC:
                continue
            partition = replicas.partitions.get((state.topic, state.partition))
            if partition is not None:
                self._node.groups.lead(partition)
        return offline

    async def stop_replicas(self, topic: str) -> None:
        """Stop serving a topic and delete its logs."""
        self._node.groups.resign(topic)
        await self._node.replicas.stop_replicas(topic)

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
