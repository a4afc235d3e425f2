"""What the controller has decided about one partition."""

from typing import Final, NamedTuple

NO_LEADER: Final = -1


class PartitionState(NamedTuple):
    """Leader, in-sync replicas and epochs, as in LeaderAndIsr and UpdateMetadata.

    `partition_epoch` is the version of the partition's state node.
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
    """Brokers that are down, or have lost the log directory with their replica."""
    is_new: bool = False
    """Nobody has led it before: its log may be made."""
