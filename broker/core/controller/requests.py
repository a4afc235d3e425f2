"""Contents of the controller's requests to one broker; the shell encodes and sends them."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..partition_state import PartitionState, TopicPartition

LEADER_EPOCH_UNKNOWN: Final = -1
LEADER_EPOCH_DELETED: Final = -2
"""In StopReplica: the topic is being deleted, and the broker does not check the epoch."""


class StoppedReplica(NamedTuple):
    """A replica that its broker must stop and, if `delete`, delete."""

    topic: str
    partition: int
    leader_epoch: int
    delete: bool

    @property
    def key(self) -> TopicPartition:
        """The topic and partition."""
        return self.topic, self.partition


class BrokerRequests(NamedTuple):
    """The requests to one broker, in this order: LeaderAndIsr, UpdateMetadata, StopReplica.

    The shell adds the controller's id and epoch, the broker's epoch, and the live brokers.
    """

    broker_id: int
    leader_and_isr: Sequence[PartitionState] = ()
    """`is_new` is specific to this broker."""
    update_metadata: Sequence[PartitionState] | None = None
    """None: no UpdateMetadata; empty: only the live brokers."""
    stop_replicas: Sequence[StoppedReplica] = ()
    is_full: bool = False
    """Whether `update_metadata` names every topic, so that any other topic was deleted."""
