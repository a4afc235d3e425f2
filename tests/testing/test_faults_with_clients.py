"""What real clients do when requests fail by rule."""

import contextlib
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.testing import Broker
from tests.support.connections import RawConnection
from tests.support.messages import fetch_request, records_in
from tests.support.waiting import until

pytestmark = pytest.mark.wire

TIMEOUT_S = 30
COUNT = 40


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    with Broker(in_process=True) as broker:
        yield broker


@pytest.fixture
def broker(server: Broker) -> Iterator[Broker]:
    """The broker without topics, rules and journal; every rule of a test must act."""
    server.reset()
    server.journal.clear()
    yield server
    assert server.faults.end() == []


def produced(broker: Broker, count: int = COUNT, **config: Any) -> list[KafkaError | None]:
    """Let librdkafka write numbers to `t`; returns what became of each."""
    producer = Producer(
        {**broker.client_config("confluent"), "linger.ms": 0, "retry.backoff.ms": 10, **config}
    )
    results: list[KafkaError | None] = []
    for number in range(count):
        producer.produce("t", b"%d" % number, on_delivery=lambda error, _: results.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    return results


def values(broker: Broker) -> list[bytes]:
    """All that is in `t`."""
    with RawConnection(broker.host, broker.port) as connection:
        found: list[bytes] = []
        while True:
            request = fetch_request("t", len(found))
            answer = connection.exchange(request, 12, client_id="odradek.testing")
            records = records_in(answer.responses[0].partitions[0].records)
            if not records:
                return found
            found += [value for _, value in records]


def numbers(count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def asked(broker: Broker, api: str) -> list[str | None]:
    """The errors of all requests of an API."""
    return [request.error for request in broker.journal.requests(api=api)]


# Producers.


def test_librdkafka_tries_again_after_a_new_leader(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", topic="t", times=2, error="NOT_LEADER_OR_FOLLOWER")
    assert produced(broker, 1) == [None]
    assert values(broker) == [b"0"]
    assert fault.hits == 2
    assert asked(broker, "Produce") == ["NOT_LEADER_OR_FOLLOWER"] * 2 + [None]


def test_kafka_python_tries_again_after_a_new_leader(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", topic="t", times=2, error="NOT_LEADER_OR_FOLLOWER")
    config = broker.client_config("kafka-python")
    with contextlib.closing(KafkaProducer(**config, retries=10, retry_backoff_ms=10)) as producer:
        assert producer.send("t", b"0").get(TIMEOUT_S).offset == 0
    assert fault.hits == 2


def test_a_lost_answer_makes_a_duplicate_unless_the_producer_is_idempotent(broker: Broker) -> None:
    for is_idempotent in (False, True):
        fault = broker.faults.add(api="Produce", topic="t", times=1, drop_response=True)
        assert produced(broker, 1, **{"enable.idempotence": is_idempotent}) == [None]
        assert values(broker) == [b"0"] * 2 if not is_idempotent else [b"0"] * 3
        assert fault.hits == 1


def test_a_refused_first_batch_of_an_idempotent_producer_loses_nothing(broker: Broker) -> None:
    """Further batches are on their way: they must not take its place."""
    broker.faults.add(api="Produce", topic="t", times=1, error="NOT_LEADER_OR_FOLLOWER")
    config = {"enable.idempotence": True, "batch.num.messages": 1}
    assert produced(broker, **config) == [None] * COUNT
    assert values(broker) == numbers()


@pytest.mark.parametrize("effect", [{"drop_response": True}, {"half_response": True}])
def test_an_idempotent_producer_survives_lost_answers(
    broker: Broker, effect: dict[str, bool]
) -> None:
    fault = broker.faults.add(api="Produce", topic="t", every=5, times=3, **effect)  # type: ignore[arg-type]
    config = {"enable.idempotence": True, "batch.num.messages": 1}
    assert produced(broker, **config) == [None] * COUNT
    assert values(broker) == numbers()
    assert fault.hits == 3


def test_records_that_may_not_be_sent_again_fail(broker: Broker) -> None:
    broker.faults.add(api="Produce", error="MESSAGE_TOO_LARGE", times=1)
    [error] = produced(broker, 1)
    assert error is not None and error.code() == KafkaError.MSG_SIZE_TOO_LARGE


def test_an_answer_that_a_function_computes(broker: Broker) -> None:
    def elsewhere(request: Any, response: Any) -> dict[str, int]:
        return {"base_offset": 100 + len(request.topic_data)}

    fault = broker.faults.add(api="Produce", answer=elsewhere, times=1)
    with contextlib.closing(KafkaProducer(**broker.client_config("kafka-python"))) as producer:
        assert producer.send("t", b"0").get(TIMEOUT_S).offset == 101
    assert fault.hits == 1


def test_a_throttled_producer_is_told(broker: Broker) -> None:
    broker.faults.add(api="Produce", throttle_ms=30, times=1)
    told: list[int] = []
    config = {"throttle_cb": lambda event: told.append(round(1000 * event.throttle_time))}
    assert produced(broker, 1, **config) == [None]
    assert told == [30]


def test_a_fenced_producer(broker: Broker) -> None:
    broker.faults.add(api="EndTxn", transactional_id="x", error="INVALID_PRODUCER_EPOCH", times=1)
    config = {**broker.client_config("confluent"), "transactional.id": "x"}
    producer = Producer(config)
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("t", b"0")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(TIMEOUT_S)
    error = fenced.value.args[0]
    assert error.code() == KafkaError._FENCED
    assert error.fatal()


def test_a_transaction_whose_coordinator_moves(broker: Broker) -> None:
    for api in ("InitProducerId", "AddPartitionsToTxn", "EndTxn"):
        broker.faults.add(api=api, transactional_id="x", error="NOT_COORDINATOR", times=1)
    producer = Producer({**broker.client_config("confluent"), "transactional.id": "x"})
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("t", b"0")
    producer.commit_transaction(TIMEOUT_S)
    assert len(asked(broker, "FindCoordinator")) >= 2


def test_errors_one_after_another(broker: Broker) -> None:
    """As librdkafka's mock pushes them, with a lost connection among them."""
    broker.faults.add(api="Produce", topic="t", times=1, error="NOT_ENOUGH_REPLICAS")
    broker.faults.add(api="Produce", topic="t", times=1, close=True)
    broker.faults.add(api="Produce", topic="t", times=1, error="REQUEST_TIMED_OUT")
    assert produced(broker, 1) == [None]
    errors = ["NOT_ENOUGH_REPLICAS", "NO_ANSWER", "REQUEST_TIMED_OUT", None]
    assert asked(broker, "Produce") == errors
    assert values(broker) == [b"0"]


def test_a_rule_acts_until_it_is_removed(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", topic="t", error="NOT_LEADER_OR_FOLLOWER")
    results: list[KafkaError | None] = []
    producer = Producer({**broker.client_config("confluent"), "retry.backoff.ms": 10})
    producer.produce("t", b"0", on_delivery=lambda error, _: results.append(error))
    until(lambda: producer.poll(0.01) == 0 and fault.hits >= 5)
    assert results == []
    fault.remove()
    assert producer.flush(TIMEOUT_S) == 0
    assert results == [None]


def test_a_topic_that_its_metadata_refuses(broker: Broker) -> None:
    broker.faults.add(api="Metadata", topic="t", error="TOPIC_AUTHORIZATION_FAILED")
    [error] = produced(broker, 1)
    assert error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED


def test_a_partition_without_a_leader(broker: Broker) -> None:
    topic = "led"  # a late Metadata request of the last test's producer may make `t` again
    broker.topics.create(topic, partitions=2)
    broker.faults.add(api="Metadata", topic=topic, partition=1, error="LEADER_NOT_AVAILABLE")
    told = AdminClient(broker.client_config("confluent")).list_topics(topic, TIMEOUT_S)
    partitions = told.topics[topic].partitions
    assert {n: each.leader for n, each in partitions.items()} == {0: broker.broker_id, 1: -1}
    assert partitions[1].error.code() == KafkaError.LEADER_NOT_AVAILABLE


def test_a_broker_that_is_elsewhere(broker: Broker) -> None:
    here = {"node_id": broker.broker_id, "host": broker.host, "port": broker.port}
    elsewhere = {"node_id": 7, "host": "elsewhere.invalid", "port": 1}
    broker.faults.add(api="Metadata", answer={"brokers": [here, elsewhere]})
    told = AdminClient(broker.client_config("confluent")).list_topics(timeout=TIMEOUT_S)
    assert sorted(told.brokers) == [broker.broker_id, 7]
    assert (told.brokers[7].host, told.brokers[7].port) == ("elsewhere.invalid", 1)


def test_a_slow_broker_is_asked_again_after_the_clients_timeout(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", broker=broker.broker_ids[0], times=1, delay="2s")
    config = {"enable.idempotence": True, "request.timeout.ms": 1000, "socket.timeout.ms": 1000}
    assert produced(broker, 1, **config) == [None]
    assert values(broker) == [b"0"]
    assert fault.hits == 1
    assert len(asked(broker, "Produce")) == 2


def test_a_broker_that_is_older_than_it_is(broker: Broker) -> None:
    """A client keeps to the versions that an answer to ApiVersions names."""
    with RawConnection(broker.host, broker.port) as connection:
        served = connection.exchange(ApiVersionsRequest(), 0).api_keys
    older = [
        {"api_key": each.api_key, "min_version": each.min_version, "max_version": newest}
        for each in served
        for newest in [min(each.max_version, 7 if each.api_key == ProduceRequest.API_KEY else 99)]
    ]
    broker.faults.add(api="ApiVersions", answer={"api_keys": older})
    assert produced(broker, 1) == [None]
    assert {each.version for each in broker.journal.requests(api="Produce")} == {7}


def test_a_record_expires_while_the_broker_is_silent(broker: Broker) -> None:
    broker.faults.add(api="Produce", topic="t", delay="20s")
    config = {"message.timeout.ms": 2000, "enable.idempotence": False}  # time for Metadata, too
    [error] = produced(broker, 1, **config)
    assert error is not None and error.code() == KafkaError._MSG_TIMED_OUT


def test_every_request_of_a_client_is_late(broker: Broker) -> None:
    fault = broker.faults.add(client_id="slow", delay="30ms")
    assert produced(broker, 1, **{"client.id": "quick"}) == [None]
    assert fault.hits == 0
    assert produced(broker, 1, **{"client.id": "slow"}) == [None]
    requests = {each.api: each for each in broker.journal.requests(client_id="slow")}
    assert {"ApiVersions", "Metadata", "Produce"} <= requests.keys()
    assert all(each.faults == [fault.id] for each in requests.values())


def test_requests_are_counted_and_forgotten(broker: Broker) -> None:
    fault = broker.faults.add(api="Produce", times=2, error="NOT_LEADER_OR_FOLLOWER")
    assert produced(broker, 1) == [None]
    assert fault.hits == 2
    assert asked(broker, "Produce") == ["NOT_LEADER_OR_FOLLOWER", "NOT_LEADER_OR_FOLLOWER", None]
    broker.journal.clear()
    assert asked(broker, "Produce") == []


def test_a_quota_of_the_controller_is_told(broker: Broker) -> None:
    broker.faults.add(api="CreateTopics", topic="new", times=1, error="THROTTLING_QUOTA_EXCEEDED")
    admin = AdminClient(broker.client_config("confluent"))
    with pytest.raises(KafkaException) as refused:
        admin.create_topics([NewTopic("new", 1)])["new"].result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.THROTTLING_QUOTA_EXCEEDED
    assert "new" not in broker.topics


# Consumers.


def consumed(consumer: Consumer, count: int = COUNT) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, f"only {found} came"
        assert message.error() is None, message.error()
        found.append(message.value())
    return found


def reader(broker: Broker, **more: Any) -> Consumer:
    config = {"group.id": "g", "auto.offset.reset": "earliest", "fetch.error.backoff.ms": 10}
    return Consumer(
        {**broker.client_config("confluent"), **config, "reconnect.backoff.ms": 10, **more}
    )


def test_a_consumer_survives_half_a_response(broker: Broker) -> None:
    assert produced(broker) == [None] * COUNT
    broker.faults.add(api="Fetch", topic="t", half_response=True, times=1)
    broker.faults.add(api="Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=1)
    with contextlib.closing(reader(broker)) as consumer:
        consumer.assign([TopicPartition("t", 0, 0)])
        assert consumed(consumer) == numbers()


def test_kafka_python_survives_half_a_response(broker: Broker) -> None:
    assert produced(broker) == [None] * COUNT
    broker.faults.add(api="Fetch", topic="t", half_response=True, times=1)
    broker.faults.add(api="Fetch", topic="t", error="NOT_LEADER_OR_FOLLOWER", times=1)
    config = broker.client_config("kafka-python")
    consumer = KafkaConsumer(
        **config, auto_offset_reset="earliest", retry_backoff_ms=10, reconnect_backoff_ms=10
    )
    with contextlib.closing(consumer):
        consumer.assign([PythonTopicPartition("t", 0)])
        assert [next(consumer).value for _ in range(COUNT)] == numbers()


def test_a_member_whose_coordinator_moves(broker: Broker) -> None:
    assert produced(broker) == [None] * COUNT
    broker.faults.add(api="JoinGroup", group="g", error="NOT_COORDINATOR", times=1)
    with contextlib.closing(reader(broker)) as consumer:
        consumer.subscribe(["t"])
        assert consumed(consumer) == numbers()
    assert asked(broker, "JoinGroup")[0] == "NOT_COORDINATOR"
    after = broker.journal.requests(api="JoinGroup")[0].number
    assert any(each.number > after for each in broker.journal.requests(api="FindCoordinator"))


def test_kafka_python_commits_although_its_coordinator_moves(broker: Broker) -> None:
    assert produced(broker) == [None] * COUNT
    broker.faults.add(api="OffsetCommit", group="p", error="NOT_COORDINATOR", times=1)
    config = broker.client_config("kafka-python")
    consumer = KafkaConsumer(
        "t", **config, group_id="p", auto_offset_reset="earliest", enable_auto_commit=False
    )
    with contextlib.closing(consumer):
        assert [next(consumer).value for _ in range(COUNT)] == numbers()
        consumer.commit()
    assert asked(broker, "OffsetCommit") == ["NOT_COORDINATOR", None]


def test_a_member_is_assigned_what_a_rule_says(broker: Broker) -> None:
    broker.topics.create("t", partitions=2)
    with RawConnection(broker.host, broker.port) as connection:
        topics = connection.exchange(MetadataRequest(topics=None), 12).topics
    (topic_id,) = (UUID(bytes=each.topic_id) for each in topics if each.name == "t")
    assigned = {"topic_partitions": [{"topic_id": str(topic_id), "partitions": [1]}]}
    broker.faults.add(api="ConsumerGroupHeartbeat", group="g", answer={"assignment": assigned})
    config = {"group.id": "g", "group.protocol": "consumer"}
    consumer = Consumer({**broker.client_config("confluent"), **config})
    consumer.subscribe(["t"])

    def is_assigned() -> bool:
        consumer.poll(0.1)
        return bool(consumer.assignment())

    until(is_assigned)
    assert [each.partition for each in consumer.assignment()] == [1]
    consumer.close()


def test_a_member_joins_again_for_a_rebalance(broker: Broker) -> None:
    assert produced(broker) == [None] * COUNT
    config = {"group.id": "h", "heartbeat.interval.ms": 50}
    with contextlib.closing(reader(broker, **config)) as consumer:
        consumer.subscribe(["t"])
        assert consumed(consumer) == numbers()
        # Not before: a client that is still joining may pass over the error.
        broker.faults.add(api="Heartbeat", group="h", error="REBALANCE_IN_PROGRESS", times=1)

        def has_joined_again() -> bool:
            consumer.poll(0.01)
            joins = [each.error for each in broker.journal.requests(api="SyncGroup")]
            return joins.count(None) >= 2

        until(has_joined_again)
