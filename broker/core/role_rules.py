"""Which roles a broker takes, and which replicas it stops, when the controller says so.

Source: the order of the checks in ReplicaManager of Apache Kafka 3.9.2.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.primitives import ZERO_UUID

from .controller.requests import LEADER_EPOCH_DELETED, LEADER_EPOCH_UNKNOWN
from .partition_state import NO_LEADER, REPLICAS_MAX, PartitionState
from .topic_names import is_topic_name

UNKNOWN_EPOCH: Final = -1


def judge_role(
    asked: PartitionState,
    *,
    broker_id: int,
    current: PartitionState | None,
    topic_id: bytes | None,
) -> ErrorCode | None:
    """The answer to one partition of a LeaderAndIsr; None: take the role.

    `current` is the last known state. `topic_id` is that of the log, None if it has none. NONE
    means that nothing changes, except that the log may get a topic id that it does not have yet.
    """
    if not is_topic_name(asked.topic) or asked.partition < 0:  # a directory is named after them
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    if max(len(asked.replicas), len(asked.isr)) > REPLICAS_MAX:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT
    asked_id = None if asked.topic_id == ZERO_UUID else asked.topic_id
    if asked_id is not None and topic_id not in (None, asked_id):
        return ErrorCode.INCONSISTENT_TOPIC_ID
    epoch = UNKNOWN_EPOCH if current is None else current.leader_epoch
    if asked.leader_epoch > epoch:
        if broker_id in asked.replicas:
            return None
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if asked.leader_epoch == epoch and current is not None:
        gets_id = asked_id is not None and topic_id is None
        keeps_id = asked_id is None and topic_id is not None and asked.leader != broker_id
        if gets_id or keeps_id:
            return ErrorCode.NONE
    return ErrorCode.STALE_CONTROLLER_EPOCH


def judge_stop(leader_epoch: int, current: PartitionState | None) -> ErrorCode:
    """The answer to one replica of a StopReplica: NONE if it is to be stopped."""
    unchecked = leader_epoch in (LEADER_EPOCH_DELETED, LEADER_EPOCH_UNKNOWN)
    if unchecked or current is None or leader_epoch >= current.leader_epoch:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH


def without_role(state: PartitionState) -> PartitionState:
    """A replica that exists, but whose leader can't be followed yet: any epoch is newer."""
    return state._replace(
        leader=NO_LEADER, leader_epoch=UNKNOWN_EPOCH, isr=(), partition_epoch=UNKNOWN_EPOCH
    )
