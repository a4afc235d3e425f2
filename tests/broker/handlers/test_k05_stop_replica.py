from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from tests.broker.controlled import SENDER, SETTINGS, lead, state, take_control
from tests.broker.running import RunningBroker, on_broker


def stop(leader_epoch: int, **more: int) -> StopReplicaRequest:
    one = StopReplicaPartitionState(
        partition_index=0, leader_epoch=leader_epoch, delete_partition=True
    )
    topic = StopReplicaTopicState(topic_name="t", partition_states=[one])
    request = StopReplicaRequest(controller_epoch=SENDER.controller_epoch, topic_states=[topic])
    for name, value in more.items():
        setattr(request, name, value)
    return request


@on_broker(SETTINGS, both=False)
async def test_codes(broker: RunningBroker) -> None:
    await take_control(broker)
    await lead(broker, state(leader_epoch=3))
    client = await broker.peer()
    broker.node.local.broker_epoch = 20
    for request, code in (
        (stop(3, broker_epoch=19), ErrorCode.STALE_BROKER_EPOCH),
        (stop(3, controller_epoch=5), ErrorCode.STALE_CONTROLLER_EPOCH),
    ):
        answer = await client.ask(request, 4)
        assert (answer.error_code, answer.partition_errors) == (code, [])
    kraft = await client.ask(stop(3, broker_epoch=20, is_k_raft_controller=True), 4)
    code = ErrorCode.UNKNOWN_SERVER_ERROR
    assert (kraft.error_code, [e.error_code for e in kraft.partition_errors]) == (code, [code])
    for leader_epoch, code in ((2, ErrorCode.FENCED_LEADER_EPOCH), (3, ErrorCode.NONE)):
        assert ("t", 0) in broker.node.replicas.partitions
        answer = await client.ask(stop(leader_epoch, broker_epoch=20), 4)
        (error,) = answer.partition_errors
        assert (answer.error_code, error.topic_name, error.partition_index) == (0, "t", 0)
        assert error.error_code == code
    assert not broker.node.replicas.partitions
