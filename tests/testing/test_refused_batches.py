"""Producers of all kinds whose batches are refused while later ones are on their way.

What was acknowledged is there, and once; producers with idempotence keep the order, too.
"""

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from odradek.testing import Broker
from tests.kafka.java import run_program
from tests.support.connections import RawConnection
from tests.support.messages import fetch_request, records_in
from tests.wire.clients import java_line
from tests.wire.records import Sent

pytestmark = pytest.mark.wire

TIMEOUT_S: Final = 30
COUNT: Final = 40
NUMBERS: Final = [b"%d" % number for number in range(COUNT)]
Produce = Callable[[Broker, bool], None]
"""Writes the numbers to `t`, all of which must be acknowledged; with idempotence or without."""


def by_librdkafka(broker: Broker, is_idempotent: bool) -> None:
    config = {"enable.idempotence": is_idempotent, "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer({**broker.client_config("confluent"), **config, "retry.backoff.ms": 10})
    errors = []
    for value in NUMBERS:
        producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None] * COUNT


def by_librdkafka_in_a_transaction(broker: Broker, _: bool) -> None:
    config = {"transactional.id": "x", "linger.ms": 0, "batch.num.messages": 1}
    producer = Producer({**broker.client_config("confluent"), **config, "retry.backoff.ms": 10})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    for value in NUMBERS:
        producer.produce("t", value)
    producer.commit_transaction(TIMEOUT_S)


def by_kafka_python(broker: Broker, is_idempotent: bool) -> None:
    config = {"enable_idempotence": is_idempotent, "retries": 20, "retry_backoff_ms": 10}
    producer = KafkaProducer(**broker.client_config("kafka-python"), **config, batch_size=0)
    with contextlib.closing(producer):
        sent = [producer.send("t", value) for value in NUMBERS]
        for each in sent:
            each.get(TIMEOUT_S)


def by_java(broker: Broker, is_idempotent: bool) -> None:
    config = f"enable.idempotence={str(is_idempotent).lower()}"
    lines = [f"config\t{config}\tbatch.size=0\tlinger.ms=0\tretry.backoff.ms=10"]
    now_ms = int(time.time() * 1000)  # retention must not delete it
    lines += [java_line("t", 0, Sent(None, value, (), now_ms)) for value in NUMBERS]
    servers = broker.bootstrap_servers
    run_program("4.3.1", "Records", "write", servers, stdin="\n".join(lines).encode())


def by_aiokafka(broker: Broker, is_idempotent: bool) -> None:
    async def produce() -> None:
        config = {"enable_idempotence": is_idempotent, "retry_backoff_ms": 10}
        config |= {"max_batch_size": 1}
        async with AIOKafkaProducer(**broker.client_config("aiokafka"), **config) as producer:
            sent = [await producer.send("t", value) for value in NUMBERS]
            await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)

    asyncio.run(produce())


PRODUCERS: Final = [
    (by_librdkafka, True),
    (by_librdkafka, False),
    (by_librdkafka_in_a_transaction, True),
    (by_kafka_python, True),
    (by_kafka_python, False),
    (by_aiokafka, True),
    (by_aiokafka, False),
    (by_java, True),
    (by_java, False),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with Broker(in_process=True) as broker:
        yield broker


def values(broker: Broker) -> list[bytes]:
    """All that is in `t`."""
    with RawConnection(broker.host, broker.port) as connection:
        found: list[bytes] = []
        while True:
            request = fetch_request("t", len(found))
            answer = connection.exchange(request, 12, client_id="odradek.testing")
            records = records_in(answer.responses[0].partitions[0].records)
            if not records:
                return [value for value in found if value in NUMBERS]  # or the end of a transaction
            found += [value for _, value in records]


@pytest.mark.parametrize(
    ("produce", "is_idempotent"),
    [
        pytest.param(
            produce,
            flag,
            id=f"{produce.__name__}-{'idempotent' if flag else 'plain'}",
            marks=[pytest.mark.java] if produce is by_java else [],
        )
        for produce, flag in PRODUCERS
    ],
)
@pytest.mark.parametrize(
    ("every", "times", "error"),
    [(1, 1, "NOT_ENOUGH_REPLICAS"), (3, 5, "NOT_LEADER_OR_FOLLOWER")],
)
def test_nothing_is_lost_or_doubled(
    server: Broker, produce: Produce, is_idempotent: bool, every: int, times: int, error: str
) -> None:
    server.reset()
    fault = server.faults.add(api="Produce", topic="t", every=every, times=times, error=error)
    produce(server, is_idempotent)
    found = values(server)
    assert sorted(found) == sorted(NUMBERS)
    assert not is_idempotent or found == NUMBERS
    assert fault.hits == times
