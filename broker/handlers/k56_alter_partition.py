"""AlterPartition 0-3: the controller changes the ISR of partitions at their leader's request.

Topics with an unknown id are answered first, as in Kafka; then come all partitions, by topic. Up to
v1, INELIGIBLE_REPLICA does not exist and is answered as OPERATION_NOT_ATTEMPTED.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    PartitionData,
    TopicData,
)
from odradek.protocol.primitives import ZERO_UUID

from ..core.controller import procedures
from ..core.controller.context import Context
from ..core.controller.effects import Procedure
from ..core.controller.procedures import IsrChange, IsrResults
from ..core.partition_state import PartitionState, TopicPartition
from ..net.call import Call
from ..node import Node

FIRST_BY_ID: Final = 2
FIRST_WITH_EPOCHS: Final = 3
RECOVERY_STATES: Final = (0, 1)

Topics = dict[str, AlterPartitionResponseTopicData]


async def handle(request: AlterPartitionRequest, call: Call, node: Node) -> AlterPartitionResponse:
    """Apply the valid changes, after all events that are queued in the controller."""
    answer = _Answer(call.version)
    try:
        results = await node.controller.ask(lambda context: _alter(context, request, answer))
    except Refused as refused:
        return AlterPartitionResponse(error_code=refused.code)
    for (topic, partition), result in results.items():
        answer.add(topic, partition, result)
    return AlterPartitionResponse(topics=[*answer.unknown, *answer.topics.values()])


class _Answer:
    """Builds the answer."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.unknown: list[AlterPartitionResponseTopicData] = []
        self.topics: Topics = {}
        self.topic_ids: dict[str, bytes] = {}

    def add(self, topic: str, partition: int, result: PartitionState | ErrorCode) -> None:
        """Add the result of one partition."""
        data = AlterPartitionResponsePartitionData(partition_index=partition)
        if isinstance(result, PartitionState):
            data.leader_id = result.leader
            data.leader_epoch = result.leader_epoch
            data.isr = list(result.isr)
            data.leader_recovery_state = int(result.is_recovering)
            data.partition_epoch = result.partition_epoch
        elif result == ErrorCode.INELIGIBLE_REPLICA and self.version < FIRST_BY_ID:
            data.error_code = ErrorCode.OPERATION_NOT_ATTEMPTED
        else:
            data.error_code = result
        if topic not in self.topics:
            self.topics[topic] = AlterPartitionResponseTopicData(
                topic_name=topic, topic_id=self.topic_ids.get(topic, ZERO_UUID), partitions=[]
            )
        self.topics[topic].partitions.append(data)

    def add_unknown(self, topic: TopicData) -> None:
        """Add a topic with an unknown id."""
        code = ErrorCode.UNKNOWN_TOPIC_ID
        partitions = [
            AlterPartitionResponsePartitionData(partition_index=p.partition_index, error_code=code)
            for p in topic.partitions
        ]
        self.unknown.append(
            AlterPartitionResponseTopicData(topic_id=topic.topic_id, partitions=partitions)
        )


def _alter(
    context: Context, request: AlterPartitionRequest, answer: _Answer
) -> Procedure[IsrResults]:
    """Change the partitions; topic ids are looked up only when it is this request's turn."""
    broker = context.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.broker_epoch:
        raise Refused(ErrorCode.STALE_BROKER_EPOCH)
    changes: list[IsrChange] = []
    invalid: dict[TopicPartition, PartitionState | ErrorCode] = {}
    for topic in request.topics:
        name = topic.topic_name
        if answer.version >= FIRST_BY_ID:
            found = context.topic_names.get(topic.topic_id)
            if found is None:
                answer.add_unknown(topic)
                continue
            name = found
            answer.topic_ids[name] = topic.topic_id
        for partition in topic.partitions:
            if partition.leader_recovery_state in RECOVERY_STATES:
                changes.append(_change(name, partition, answer.version))
            else:
                invalid[name, partition.partition_index] = ErrorCode.INVALID_REQUEST
    results = yield from procedures.alter_partitions(
        context, request.broker_id, request.broker_epoch, changes
    )
    return {**results, **invalid}


def _change(topic: str, wanted: PartitionData, version: int) -> IsrChange:
    with_epochs = version >= FIRST_WITH_EPOCHS
    return IsrChange(
        topic=topic,
        partition=wanted.partition_index,
        leader_epoch=wanted.leader_epoch,
        partition_epoch=wanted.partition_epoch,
        isr=tuple(b.broker_id for b in wanted.new_isr_with_epochs)
        if with_epochs
        else tuple(wanted.new_isr),
        is_recovering=bool(wanted.leader_recovery_state),
    )
