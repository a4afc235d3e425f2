"""AlterPartition on a broker that is the controller, in all versions."""

from typing import Any

import pytest

from odradek.broker.node import Node
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.broker.running import RunningBroker, on_broker

OTHER = 77


def alter(
    node: Node, version: int, isr: list[int], *, topic_id: bytes | None = None, **more: Any
) -> AlterPartitionRequest:
    """A change of partition 0 of topic t as its leader would ask for it."""
    state = node.controller.context.states["t", 0]
    wanted = PartitionData(
        leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch, **more
    )
    if version >= 3:
        wanted.new_isr_with_epochs = [BrokerState(broker_id=replica) for replica in isr]
    else:
        wanted.new_isr = isr
    topic = TopicData(partitions=[wanted])
    if version >= 2:
        topic.topic_id = topic_id or state.topic_id
    else:
        topic.topic_name = "t"
    return AlterPartitionRequest(
        broker_id=node.broker_id, broker_epoch=node.local.broker_epoch, topics=[topic]
    )


def code_of(answer: AlterPartitionResponse) -> int:
    (topic,) = answer.topics
    (partition,) = topic.partitions
    return partition.error_code


@pytest.mark.parametrize("version", range(4))
@on_broker(both=False)
async def test_every_version(broker: RunningBroker, version: int) -> None:
    client, node = await broker.peer(), broker.node
    topic = await client.create_topic("t")
    answer = await client.ask(alter(node, version, [node.broker_id]), version)
    (told,) = answer.topics
    assert (told.topic_name, told.topic_id) == (
        ("t", bytes(16)) if version < 2 else ("", topic.topic_id)
    )
    (partition,) = told.partitions
    assert (partition.error_code, partition.leader_id, partition.isr) == (0, 0, [0])
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    answer = await client.ask(alter(node, version, [node.broker_id, OTHER]), version)
    assert code_of(answer) == (
        ErrorCode.OPERATION_NOT_ATTEMPTED if version < 2 else ErrorCode.INELIGIBLE_REPLICA
    )


@on_broker(both=False)
async def test_what_is_refused(broker: RunningBroker) -> None:
    client, node = await broker.peer(), broker.node
    await client.create_topic("t")
    own = [node.broker_id]
    answer = await client.ask(alter(node, 3, own, topic_id=bytes(15) + b"x"), 3)
    assert code_of(answer) == ErrorCode.UNKNOWN_TOPIC_ID
    assert code_of(await client.ask(alter(node, 3, own, leader_recovery_state=9), 3)) == (
        ErrorCode.INVALID_REQUEST
    )
    request = alter(node, 3, own)
    request.topics[0].partitions[0].leader_epoch = -1
    assert code_of(await client.ask(request, 3)) == ErrorCode.FENCED_LEADER_EPOCH
    request.topics[0].partitions[0].leader_epoch = 1
    assert code_of(await client.ask(request, 3)) == ErrorCode.NOT_CONTROLLER
    request.topics[0].partitions[0].partition_index = 5
    assert code_of(await client.ask(request, 3)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for broker_id, broker_epoch in ((node.broker_id, 1), (OTHER, node.local.broker_epoch)):
        request.broker_id, request.broker_epoch = broker_id, broker_epoch
        answer = await client.ask(request, 3)
        assert (answer.error_code, answer.topics) == (ErrorCode.STALE_BROKER_EPOCH, [])
    node.controller.lost()
    assert (await client.ask(request, 3)).error_code == ErrorCode.NOT_CONTROLLER
