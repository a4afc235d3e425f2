"""What the controller tells one broker: values, which the shell puts into requests."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..partition_state import PartitionState, TopicPartition

LEADER_EPOCH_UNKNOWN: Final = -1
LEADER_EPOCH_DELETED: Final = -2
"""In StopReplica: the topic is being deleted, no epoch is to be checked."""


class StoppedReplica(NamedTuple):
    """A replica that its broker has to stop, and perhaps to delete."""

    topic: str
    partition: int
    leader_epoch: int
    delete: bool

    @property
    def key(self) -> TopicPartition:
        """Which partition."""
        return self.topic, self.partition


class BrokerRequests(NamedTuple):
    """For one broker, in this order: LeaderAndIsr, UpdateMetadata, StopReplica.

    The shell adds the controller's id and epoch, the broker's epoch, the live brokers.
    """

    broker_id: int
    leader_and_isr: Sequence[PartitionState] = ()
    """`is_new` is meant for this broker."""
    update_metadata: Sequence[PartitionState] | None = None
    """None: no UpdateMetadata; empty: only the live brokers."""
    stop_replicas: Sequence[StoppedReplica] = ()
    is_full: bool = False
    """Whether `update_metadata` names every topic: one that it does not name was deleted."""
