"""The followers on this broker, and the in-sync sets of the partitions that it leads."""

from collections.abc import Iterable

from ..core.partition import Partition
from ..core.partition_state import TopicPartition


class Replicator:
    """Fetches for followers, and has lagging or caught-up followers reported to the controller.

    Made by the server, closed by its task supervisor.
    """

    def roles_changed(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions have been told (LeaderAndIsr) whom to follow, or to lead."""
        raise NotImplementedError

    def stopped(self, keys: Iterable[TopicPartition]) -> None:
        """These partitions are not on this broker any more (StopReplica, a failed directory)."""
        raise NotImplementedError

    def brokers_changed(self) -> None:
        """UpdateMetadata has brought other live brokers or addresses."""
        raise NotImplementedError

    def propose(self, partition: Partition) -> None:
        """Have the controller asked for the in-sync set that the partition's leader wants."""
        raise NotImplementedError
