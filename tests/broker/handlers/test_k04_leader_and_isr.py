import pytest

from odradek.broker.coordination.interface import SessionExpired
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from tests.broker.controlled import SENDER, SETTINGS, TOPIC_ID, take_control
from tests.broker.running import RunningBroker, on_broker
from tests.support.connections import HungUp


def lead(*partitions: int, controller_epoch: int = SENDER.controller_epoch) -> LeaderAndIsrRequest:
    states = [
        LeaderAndIsrPartitionState(
            partition_index=partition, leader=0, isr=[0], replicas=[0], is_new=True
        )
        for partition in partitions
    ]
    topic = LeaderAndIsrTopicState(topic_name="t", topic_id=TOPIC_ID, partition_states=states)
    return LeaderAndIsrRequest(controller_epoch=controller_epoch, topic_states=[topic])


@on_broker(SETTINGS, both=False)
async def test_every_partition_has_a_code(broker: RunningBroker) -> None:
    await take_control(broker)
    client = await broker.peer()
    answer = await client.ask(lead(1, 0), 7)
    (topic,) = answer.topics
    assert (answer.error_code, topic.topic_id) == (0, TOPIC_ID)
    assert [(e.partition_index, e.error_code) for e in topic.partition_errors] == [(1, 0), (0, 0)]
    stale = ErrorCode.STALE_CONTROLLER_EPOCH
    answer = await client.ask(lead(1, 2), 7)
    codes = [(e.partition_index, e.error_code) for e in answer.topics[0].partition_errors]
    assert (answer.error_code, codes) == (0, [(1, stale), (2, 0)])
    answer = await client.ask(lead(3, controller_epoch=5), 7)
    codes = [(e.partition_index, e.error_code) for e in answer.topics[0].partition_errors]
    assert (answer.error_code, codes) == (stale, [(3, stale)])


@on_broker(SETTINGS, both=False)
async def test_the_controller_asks_again_if_the_store_does_not_answer(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await take_control(broker)

    async def get(path: str, watch: object = None) -> None:
        raise SessionExpired(path)

    client = await broker.peer()
    with monkeypatch.context() as patch:
        patch.setattr(broker.node.control._session, "get", get)
        with pytest.raises(HungUp):
            await client.ask(lead(0), 7)
    answer = await (await broker.peer()).ask(lead(0), 7)
    assert answer.topics[0].partition_errors[0].error_code == 0
