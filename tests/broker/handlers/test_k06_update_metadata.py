from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from odradek.protocol.messages.k75_describe_topic_partitions import DescribeTopicPartitionsRequest
from tests.broker.controlled import SENDER, SETTINGS, TOPIC_ID, take_control
from tests.broker.requests import metadata
from tests.broker.running import RunningBroker, on_broker

ELSEWHERE, DEAD = 5, 77


def update(controller_epoch: int = SENDER.controller_epoch) -> UpdateMetadataRequest:
    leaders = {0: 0, 1: ELSEWHERE, 3: DEAD}
    states = [
        UpdateMetadataPartitionState(
            partition_index=partition, leader=leader, isr=[leader], replicas=[leader]
        )
        for partition, leader in leaders.items()
    ]
    listeners = {0: "PLAINTEXT", ELSEWHERE: "INSIDE"}
    return UpdateMetadataRequest(
        controller_id=ELSEWHERE,
        controller_epoch=controller_epoch,
        topic_states=[
            UpdateMetadataTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
        ],
        live_brokers=[
            UpdateMetadataBroker(
                id=broker_id,
                endpoints=[UpdateMetadataEndpoint(port=9, host="host", listener=listener)],
                rack=None,
            )
            for broker_id, listener in listeners.items()
        ],
    )


@on_broker(SETTINGS, both=False)
async def test_what_clients_see(broker: RunningBroker) -> None:
    await take_control(broker)
    client = await broker.peer()
    assert (await client.ask(update(5), 8)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.node.metadata.topics == {}
    assert (await client.ask(update(), 8)).error_code == 0
    away, dead = ErrorCode.LISTENER_NOT_FOUND, ErrorCode.LEADER_NOT_AVAILABLE
    seen = await client.ask(metadata("t"), 12)
    assert (seen.controller_id, [b.node_id for b in seen.brokers]) == (ELSEWHERE, [0])
    expected = [(0, 0, 0), (1, -1, away), (3, -1, dead)]
    partitions = seen.topics[0].partitions
    assert [(p.partition_index, p.leader_id, p.error_code) for p in partitions] == expected
    described = await client.ask(DescribeTopicPartitionsRequest(), 0)
    partitions = described.topics[0].partitions
    assert [(p.partition_index, p.leader_id, p.error_code) for p in partitions] == expected
