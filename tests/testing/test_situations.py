"""Situations for which the suites of clients need a mock, with librdkafka and aiokafka.

Those of Go, Java and Node.js are in `examples/`.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing import Broker

pytestmark = [pytest.mark.wire, pytest.mark.slow]

TIMEOUT_S = 30


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with Broker(in_process=True) as broker:
        yield broker


@pytest.fixture
def broker(server: Broker) -> Iterator[Broker]:
    """The broker with a topic `t` only; every rule of a test must act."""
    server.reset()
    server.journal.clear()
    server.topics.create("t")
    yield server
    assert server.faults.end() == []


def producer(broker: Broker, **config: Any) -> Producer:
    quick = {"linger.ms": 0, "retry.backoff.ms": 10, "retry.backoff.max.ms": 50}
    return Producer({**broker.client_config("confluent"), **quick, **config})


def send(by: Producer) -> KafkaError | None:
    """What became of one record."""
    results: list[KafkaError | None] = []
    by.produce("t", b"v", on_delivery=lambda error, _: results.append(error))
    assert by.flush(TIMEOUT_S) == 0
    return results[0]


def in_topic(broker: Broker) -> int:
    return len(broker.records("t"))


@pytest.mark.parametrize(("idempotent", "count"), [(False, 2), (True, 1)])
def test_an_error_after_the_effect(broker: Broker, idempotent: bool, count: int) -> None:
    broker.faults.add(api="Produce", topic="t", times=1, error="REQUEST_TIMED_OUT", applied=True)
    by = producer(broker, **{"enable.idempotence": idempotent})
    assert send(by) is None
    assert in_topic(broker) == count


def test_too_few_replicas_in_sync_for_a_while(broker: Broker) -> None:
    broker.faults.add(api="Produce", topic="t", times=3, error="NOT_ENOUGH_REPLICAS")
    assert send(producer(broker)) is None
    assert in_topic(broker) == 1


def test_a_record_expires_while_the_broker_is_silent(broker: Broker) -> None:
    broker.faults.add(api="Produce", topic="t", delay="5s")
    by = producer(broker, **{"message.timeout.ms": 300, "enable.idempotence": False})
    error = send(by)
    assert error is not None and error.code() == KafkaError._MSG_TIMED_OUT


def test_an_answer_without_a_leader_is_asked_for_again(broker: Broker) -> None:
    broker.faults.add(api="Metadata", topic="t", times=2, error="LEADER_NOT_AVAILABLE")
    by = producer(broker, **{"topic.metadata.refresh.fast.interval.ms": 20})
    assert send(by) is None


def test_a_quota_of_the_controller_is_told(broker: Broker) -> None:
    broker.faults.add(api="CreateTopics", topic="new", times=1, error="THROTTLING_QUOTA_EXCEEDED")
    admin = AdminClient(broker.client_config("confluent"))
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("new", 1)])["new"].result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.THROTTLING_QUOTA_EXCEEDED
    assert "new" not in broker.topics


def test_a_reader_of_committed_records_goes_on_once_a_transaction_expires(broker: Broker) -> None:
    hanging = producer(broker, **{"transactional.id": "gone", "transaction.timeout.ms": 20_000})
    hanging.init_transactions()
    hanging.begin_transaction()
    hanging.produce("t", b"never committed")
    hanging.flush(TIMEOUT_S)
    broker.produce("t", b"after it")
    consumer = Consumer({**broker.client_config("confluent"), "group.id": "g"})
    consumer.assign([TopicPartition("t", 0, 0)])
    assert consumer.poll(0.3) is None
    broker.clock.advance("21s")
    message = consumer.poll(TIMEOUT_S)
    consumer.close()
    assert message is not None and message.value() == b"after it"


def test_aiokafka_joins_again_when_the_clock_expires_its_session(broker: Broker) -> None:
    async def main() -> None:
        consumer = AIOKafkaConsumer(
            "t",
            group_id="g",
            session_timeout_ms=6_000,
            heartbeat_interval_ms=100,
            **broker.client_config("aiokafka"),
        )
        async with consumer:
            await broker.aio.wait_for_group("g", members=1, assigned=1)
            joined = len(broker.journal.requests(api="JoinGroup"))
            await broker.aio.clock.advance("7s")
            deadline_s = time.monotonic() + TIMEOUT_S
            while len(broker.journal.requests(api="JoinGroup")) == joined:
                assert time.monotonic() < deadline_s
                await asyncio.sleep(0.02)
            await broker.aio.wait_for_group("g", members=1, assigned=1)

    asyncio.run(main())


def test_aiokafka_is_idempotent_through_lost_answers(broker: Broker) -> None:
    async def main() -> None:
        broker.faults.add(api="Produce", topic="t", times=2, drop_response=True)
        config = broker.client_config("aiokafka")
        async with AIOKafkaProducer(enable_idempotence=True, retry_backoff_ms=10, **config) as by:
            await by.send_and_wait("t", b"v")

    asyncio.run(main())
    assert in_topic(broker) == 1


def test_every_request_of_a_client_is_late(broker: Broker) -> None:
    fault = broker.faults.add(client_id="slow", delay="30ms")
    assert send(producer(broker, **{"client.id": "quick"})) is None
    assert fault.hits == 0
    assert send(producer(broker, **{"client.id": "slow"})) is None
    asked = {each.api: each for each in broker.journal.requests(client_id="slow")}
    assert {"ApiVersions", "Metadata", "Produce"} <= asked.keys()
    assert all(each.faults == [fault.id] for each in asked.values())


def test_requests_are_counted_and_forgotten(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", times=2, error="NOT_LEADER_OR_FOLLOWER")
    assert send(producer(broker)) is None
    assert fault.hits == 2
    assert [each.error for each in broker.journal.requests(api="Produce")] == [
        "NOT_LEADER_OR_FOLLOWER",
        "NOT_LEADER_OR_FOLLOWER",
        None,
    ]
    broker.journal.clear()
    assert broker.journal.requests(api="Produce") == []


def test_the_first_member_waits_for_others() -> None:
    delayed = {"group.initial.rebalance.delay.ms": 60_000}
    with Broker(in_process=True, settings=delayed) as broker:
        broker.topics.create("t", partitions=2)
        consumer = Consumer({**broker.client_config("confluent"), "group.id": "g"})
        consumer.subscribe(["t"])
        deadline_s = time.monotonic() + TIMEOUT_S
        while len(broker.journal.requests(api="JoinGroup")) < 2:  # the first gets a member id
            assert time.monotonic() < deadline_s
            consumer.poll(0.02)
        assert broker.groups["g"].state == "PreparingRebalance"
        broker.clock.advance("61s")
        while len(consumer.assignment()) < 2:
            assert time.monotonic() < deadline_s
            consumer.poll(0.02)
        consumer.close()
