"""Which coordinator uses the partitions of which topic."""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from ..core.partition import Partition
from ..core.partition_state import TopicPartition


class Coordinator(Protocol):
    """A coordinator that keeps its state in the partitions of one internal topic."""

    def lead(self, partition: Partition) -> None:
        """This broker has become the leader of a partition."""

    def resign_partitions(self, partitions: Collection[int]) -> None:
        """This broker no longer leads these partitions, if it did."""

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted: the coordinator's own, or another one."""


class Coordinators:
    """All coordinators of a broker, by the topic of each."""

    def __init__(self, by_topic: Mapping[str, Coordinator]) -> None:
        self._by_topic = by_topic

    def roles_changed(
        self, keys: Iterable[TopicPartition], served: Mapping[TopicPartition, Partition]
    ) -> None:
        """These partitions have new roles (LeaderAndIsr); `served` are all that are here."""
        for key in keys:
            coordinator = self._by_topic.get(key[0])
            if coordinator is None:
                continue
            partition = served.get(key)
            if partition is not None and partition.is_leader:
                coordinator.lead(partition)
            else:
                coordinator.resign_partitions([key[1]])

    def resign(self, keys: Collection[TopicPartition]) -> None:
        """These partitions are no longer on this broker."""
        for topic, coordinator in self._by_topic.items():
            coordinator.resign_partitions([number for name, number in keys if name == topic])

    def forget_topic(self, topic: str) -> None:
        """A topic was deleted."""
        for coordinator in self._by_topic.values():
            coordinator.forget_topic(topic)
