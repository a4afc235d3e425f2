"""What the controller has decided about one partition."""

from collections.abc import Iterable
from typing import Final, NamedTuple

NO_LEADER: Final = -1
LEADER_IS_DELETED: Final = -2
"""The leader, in UpdateMetadata, of a partition whose topic is being deleted."""
REPLICAS_MAX: Final = 1000
"""The most replicas of one partition; a control request or the store could claim more."""

TopicPartition = tuple[str, int]


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """The partitions of each topic, in order."""
    found: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        found.setdefault(topic, []).append(partition)
    return found


class PartitionState(NamedTuple):
    """Leader, in-sync replicas and epochs, as in LeaderAndIsr and UpdateMetadata.

    `partition_epoch` is the version of the partition's state node. `controller_epoch` is that of
    the controller that wrote it.
    """

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    offline_replicas: tuple[int, ...] = ()
    """Brokers that are down, or have lost the log directory that holds their replica."""
    is_new: bool = False
    """In LeaderAndIsr: the receiver has never had this replica, so it may create the log."""
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    """The replicas that a pending reassignment adds or removes; both are among `replicas`."""
    is_recovering: bool = False
    """The leader was elected uncleanly, and the in-sync replicas have not changed since."""

    is_loss_accepted: bool = False
    """In LeaderAndIsr from Odradek's controllers: lead, even if that loses committed records."""

    @property
    def key(self) -> TopicPartition:
        """The topic and partition."""
        return self.topic, self.partition
