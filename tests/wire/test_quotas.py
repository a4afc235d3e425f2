"""Quotas: how long clients are throttled, and what they get meanwhile.

Run against Apache Kafka 3.9.2 (--target kafka-3.9), it shows that the throttle times are Kafka's.
They depend on the broker's clock: a rate is measured over ten seconds and what has passed of the
first sample. So each has two bounds: the client measures how much may have passed.
"""

import itertools
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k49_alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from odradek.protocol.schema import Message
from tests.support.brokers import NewTopicName, SharedServer, StartServer, UniqueName
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import request_bytes
from tests.support.messages import batch_of, creatable, fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.clients import librdkafka
from tests.wire.servers import Server

SAVED_UP_S: Final = 10
THROTTLING_QUOTA_EXCEEDED: Final = 89
BATCH: Final = batch_of(bytes(50_000))
_PROBES: Final = itertools.count()


def set_quota(server: Server, entity: dict[str, str | None], **quotas: float | None) -> None:
    """Set quotas of an entity; return when they count."""
    probe = f"probe-{next(_PROBES)}"
    alter(server, entity, quotas)
    alter(server, {"client-id": probe}, {"request_percentage": 0.0001})
    # Apache Kafka answers before a quota counts, but they come to count in their order.
    until(lambda: asked(server, ApiVersionsRequest(), 2, probe).throttle_time_ms > 0, "it counts")
    alter(server, {"client-id": probe}, {"request_percentage": None})


def alter(server: Server, entity: dict[str, str | None], quotas: dict[str, float | None]) -> None:
    entry = EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in quotas.items()
        ],
    )
    answer = asked(server, AlterClientQuotasRequest(entries=[entry]), 1, "admin")
    assert answer.entries[0].error_code == 0, answer.entries[0].error_message


def asked(server: Server, request: Message, version: int, client_id: str) -> Any:
    """An answer over a connection of its own, as this one may be muted afterwards."""
    with RawConnection(server.host, server.port) as connection:
        return connection.exchange(request, version, client_id=client_id)


class Throttles:
    """Throttle times of the same client, and what they must be."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._used = 0.0
        self._began_s = 0.0

    def ask(self, ask: Callable[[], Any], used: Callable[[Any], float]) -> Any:
        """Ask for something that uses so much of the quota; compare the throttle time."""
        self._began_s = self._began_s or time.monotonic()
        answer = ask()
        passed_ms = 1000 * (time.monotonic() - self._began_s)
        exact_ms = 1000 * ((self._used + used(answer)) / self._rate - SAVED_UP_S)
        least_ms, most_ms = max(exact_ms - passed_ms - 2, 0), max(exact_ms + 1, 0)
        assert least_ms <= answer.throttle_time_ms <= most_ms, (least_ms, most_ms)
        if not answer.throttle_time_ms or used(answer):
            self._used += used(answer)
        return answer


def test_a_producer(server: Server, new_topic: NewTopicName, unique_name: UniqueName) -> None:
    topic, client_id = new_topic(), unique_name("quota")
    rate = 8_000.0
    set_quota(server, {"client-id": client_id}, producer_byte_rate=rate)
    request = produce_request(topic, {0: BATCH})
    size = len(request_bytes(request, 9, client_id=client_id))
    throttles = Throttles(rate)
    times = [
        throttles.ask(lambda: asked(server, request, 9, client_id), lambda _: size).throttle_time_ms
        for _ in range(4)
    ]
    assert times[0] == 0
    assert times[1] > 0
    assert times[3] > times[2] > times[1]


def test_a_consumer(server: Server, new_topic: NewTopicName, unique_name: UniqueName) -> None:
    topic, client_id = new_topic(), unique_name("quota")
    for _ in range(3):
        asked(server, produce_request(topic, {0: BATCH}), 9, "writer")
    rate = 6_000.0
    set_quota(server, {"client-id": client_id}, consumer_byte_rate=rate)
    request = fetch_request(topic, partition_max_bytes=len(BATCH))
    first = asked(server, request, 11, client_id)
    records = first.responses[0].partitions[0].records
    assert first.throttle_time_ms == 0
    assert len(records) == len(BATCH)
    size = 4 + len(first.encode(11))
    began_s = time.monotonic()
    for _ in range(2):
        second = asked(server, request, 11, client_id)
        passed_ms = 1000 * (time.monotonic() - began_s) + 1000
        assert second.responses == []
        exact_ms = 1000 * (2 * size / rate - SAVED_UP_S)
        assert exact_ms - passed_ms <= second.throttle_time_ms <= exact_ms + 1


def test_a_connection_is_muted(
    server: Server, new_topic: NewTopicName, unique_name: UniqueName
) -> None:
    topic, client_id = new_topic(), unique_name("quota")
    rate = 9_000.0
    set_quota(server, {"client-id": client_id}, producer_byte_rate=rate)
    request = produce_request(topic, {0: BATCH})
    with RawConnection(server.host, server.port) as connection:
        while not (
            throttle_ms := connection.exchange(request, 9, client_id=client_id).throttle_time_ms
        ):
            pass
        answered_s = time.monotonic()
        connection.exchange(ApiVersionsRequest(), 2, client_id=client_id)
        assert time.monotonic() - answered_s >= throttle_ms / 1000 - 0.05


def test_changes_of_topics(server: Server, unique_name: UniqueName) -> None:
    client_id = unique_name("quota")
    rate = 1.0
    set_quota(server, {"client-id": client_id}, controller_mutation_rate=rate)

    def create(version: int, partitions: int) -> tuple[int, int]:
        topic = creatable(unique_name("quota"), partitions)
        request = CreateTopicsRequest(topics=[topic], timeout_ms=30_000)
        answer = asked(server, request, version, client_id)
        return answer.topics[0].error_code, answer.throttle_time_ms

    assert create(6, 40) == (0, 0)
    code, throttle_ms = create(6, 1)
    assert code == THROTTLING_QUOTA_EXCEEDED
    assert 15_000 < throttle_ms <= 29_000, "eleven were saved up"
    code, throttle_ms = create(5, 1)
    assert code == 0
    assert 15_000 < throttle_ms <= 30_000


def test_the_time_of_the_broker(server: Server, unique_name: UniqueName) -> None:
    client_id = unique_name("quota")
    set_quota(server, {"client-id": client_id}, request_percentage=0.0001)
    answers = [asked(server, ApiVersionsRequest(), 2, client_id) for _ in range(3)]
    assert max(answer.throttle_time_ms for answer in answers) == 1000, "one sample"


def test_an_address(start_server: StartServer) -> None:
    server = start_server({})
    set_quota(server, {"ip": None}, connection_creation_rate=2.0)
    with ExitStack() as stack:
        connections = [
            stack.enter_context(RawConnection(server.host, server.port)) for _ in range(40)
        ]
        served = 0
        for connection in connections:
            try:
                connection.exchange(ApiVersionsRequest(), 2)
                served += 1
            except HungUp:
                pass
    # What set the quota came before it, and twenty are saved up.
    assert 15 <= served <= 25


@pytest.mark.parametrize("kind", ["producer", "consumer"])
def test_librdkafka_keeps_to_its_quota(shared_server: SharedServer, kind: str) -> None:
    """What may be saved up goes at once, and then no more than the quota."""
    server = shared_server({"quota.window.num": "3"})
    topic, client_id, rate = f"quota-of-{kind}", f"slow-{kind}", 400_000.0
    options = librdkafka(server.bootstrap_servers)
    asked(server, CreateTopicsRequest(topics=[creatable(topic, 1)], timeout_ms=30_000), 5, "admin")
    if kind == "consumer":
        fill(Producer(options), topic)
    set_quota(server, {"client-id": client_id}, **{f"{kind}_byte_rate": rate})
    options["client.id"] = client_id
    began_s = time.monotonic()
    if kind == "producer":
        fill(Producer(options | {"batch.size": 20_000}), topic)
    else:
        read(Consumer(options | READER), topic)
    passed_s = time.monotonic() - began_s
    saved_up_s = 3
    assert rate * (saved_up_s + passed_s) * 1.1 >= RECORDS * RECORD_BYTES


RECORDS: Final = 200
RECORD_BYTES: Final = 10_000
READER: Final = {
    "group.id": "quota",
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "fetch.message.max.bytes": 20_000,
    "queued.max.messages.kbytes": 40,
}


def fill(producer: Producer, topic: str) -> None:
    for _ in range(RECORDS):
        producer.produce(topic, bytes(RECORD_BYTES), partition=0)
        producer.poll(0)
    assert producer.flush(120) == 0


def read(consumer: Consumer, topic: str) -> None:
    consumer.assign([TopicPartition(topic, 0, 0)])
    for _ in range(RECORDS):
        message = consumer.poll(120)
        assert message is not None
        assert message.error() is None
    consumer.close()
