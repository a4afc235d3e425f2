"""What Kafka's controller told two brokers of Kafka gets the same answers from a broker of ours."""

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest

from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.k05_stop_replica import StopReplicaResponse
from odradek.protocol.schema import Message
from tests.wire.message_json import Recorded, from_json, recorded, request_class, response_class

from ..controlled import SETTINGS, Told
from ..running import running

CONTROL = (4, 5, 6)
LAST_TOPICS = {"t1", "t2", "__consumer_offsets", "__transaction_state"}


def lives_of(receiver: str) -> list[list[Recorded]]:
    """The control requests of each life of a broker."""
    told = [one for one in recorded() if one.receiver == receiver and one.api_key in CONTROL]
    grouped = itertools.groupby(told, key=lambda one: one.request["brokerEpoch"])
    return [list(requests) for _, requests in grouped]


def in_any_order(response: Message) -> Any:
    """Kafka answers in the order of a hash table."""
    if isinstance(response, LeaderAndIsrResponse):
        codes = [
            (topic.topic_id, error.partition_index, error.error_code)
            for topic in response.topics
            for error in topic.partition_errors
        ]
        return response.error_code, sorted(codes)
    if isinstance(response, StopReplicaResponse):
        stopped = [
            (e.topic_name, e.partition_index, e.error_code) for e in response.partition_errors
        ]
        return response.error_code, sorted(stopped)
    return response


@pytest.mark.parametrize("broker_id", [1, 2])
def test_the_recorded_answers(tmp_path: Path, broker_id: int) -> None:
    lives = lives_of(f"127.0.0.1:2919{broker_id}")
    assert len(lives) == broker_id, "the second one was killed once"
    settings = {**SETTINGS, "broker.id": str(broker_id)}

    async def live(requests: list[Recorded]) -> None:
        async with running(tmp_path, settings) as broker:
            broker.node.control._replicator = Told()  # type: ignore[assignment]
            broker.node.control.controller_epoch = 0  # it has been its own controller
            broker.node.local.broker_epoch = requests[0].request["brokerEpoch"]
            client = await broker.peer()
            for one in requests:
                request = from_json(request_class(one.api_key), one.request)
                expected = from_json(response_class(one.api_key), one.response)
                answer = await client.ask(request, one.version)
                assert in_any_order(answer) == in_any_order(expected), request
            assert set(broker.node.metadata.topics) >= LAST_TOPICS
            assert "tdel" not in broker.node.metadata.topics
            assert {topic for topic, _ in broker.node.replicas.partitions} == LAST_TOPICS

    for requests in lives:
        asyncio.run(live(requests))
