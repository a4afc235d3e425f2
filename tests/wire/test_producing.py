"""The producer's side, seen from the broker: order, batches, partitions, sizes, idempotence."""

import asyncio
import struct
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Final

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from tests.kafka.java import run_program
from tests.support.brokers import NewTopicName, StartServer, UniqueName, create_topic
from tests.wire.clients import (
    READERS,
    java_line,
    librdkafka,
    read_confluent,
)
from tests.wire.proxy import CuttingProxy
from tests.wire.records import Sent
from tests.wire.servers import Server

HEADER: Final = struct.Struct(">qiibIhiqqqhii")
SendAll = Callable[[str, str, list[bytes], dict[str, Any]], None]


def batches(server: Server, topic: str, partition: int = 0) -> list[tuple[int, ...]]:
    """The header fields of each batch in the partition's first segment, as Kafka orders them."""
    log = (server.data_dir / f"{topic}-{partition}" / f"{0:020d}.log").read_bytes()
    found, position = [], 0
    while position < len(log):
        header = HEADER.unpack_from(log, position)
        found.append(header)
        position += header[1] + 12
    return found


def record_counts(server: Server, topic: str) -> list[int]:
    return [header[12] for header in batches(server, topic)]


# --- order ------------------------------------------------------------------------------------


QUICK: Final = {"linger.ms": 1, "batch.num.messages": 20, "reconnect.backoff.max.ms": 200}


def send_confluent(servers: str, topic: str, values: list[bytes], more: dict[str, Any]) -> None:
    producer = Producer(librdkafka(servers, **{**QUICK, **more}))
    failed: list[object] = []
    for value in values:
        producer.produce(
            topic, value, partition=0, on_delivery=lambda e, _: failed.append(e) if e else None
        )
        producer.poll(0)
    assert producer.flush(90) == 0
    assert not failed


def send_java(servers: str, topic: str, values: list[bytes], more: dict[str, Any]) -> None:
    config = {"linger.ms": 1, "batch.size": 400, "reconnect.backoff.max.ms": 50, **more}
    settings = "\t".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}"
        for name, value in config.items()
    )
    lines = [f"config\t{settings}"]
    lines += [java_line(topic, 0, Sent(None, value)) for value in values]
    run_program("4.3.1", "Records", "write", servers, stdin="\n".join(lines).encode())


ONE_IN_FLIGHT: Final = {
    "max.in.flight.requests.per.connection": 1,
    "enable.idempotence": False,
    "acks": "all",
}
IDEMPOTENT: Final = {"max.in.flight.requests.per.connection": 5, "enable.idempotence": True}


@pytest.mark.parametrize("settings", [ONE_IN_FLIGHT, IDEMPOTENT], ids=["one", "five-idempotent"])
@pytest.mark.parametrize(
    "send",
    [
        pytest.param(send_confluent, id="librdkafka"),
        pytest.param(send_java, id="java", marks=pytest.mark.java),
    ],
)
def test_order_through_dropped_connections(
    start_server: StartServer, send: SendAll, settings: dict[str, Any]
) -> None:
    """Retries may double a batch where there are no sequence numbers, but never swap two."""
    values = [b"%06d" % n for n in range(4000)]
    # A send that nobody answered costs reconnects only; 12 cuts are enough to hit every moment.
    with CuttingProxy(seed=20221, cut_one_in=12, cuts_max=12) as proxy:
        server = start_server({"advertised.listeners": f"PLAINTEXT://{proxy.host}:{proxy.port}"})
        proxy.upstream = (server.host, server.port)
        create_topic(proxy.bootstrap_servers, "ordered")
        send(proxy.bootstrap_servers, "ordered", values, settings)
        assert proxy.cuts >= 5
        count = sum(record_counts(server, "ordered"))
        found = [r.value for r in read_confluent(proxy.bootstrap_servers, "ordered", {0: count})[0]]
    if settings is IDEMPOTENT:
        assert found == values
    else:
        assert list(dict.fromkeys(found)) == values
        # Where it steps back, it repeats from an earlier record on: a whole batch came twice.
        for before, after in pairwise(found):
            assert before is not None
            assert after is not None
            assert int(after) <= int(before) + 1


# --- batches ----------------------------------------------------------------------------------


def test_batches_grow_with_linger(server: Server, new_topic: NewTopicName) -> None:
    at_once, linger = new_topic("at-once"), new_topic("linger")
    for topic, linger_ms in ((at_once, 0), (linger, 5_000)):  # the flush does not wait for it
        producer = KafkaProducer(
            bootstrap_servers=server.bootstrap_servers, linger_ms=linger_ms, batch_size=100_000
        )
        try:
            for n in range(50):
                sent = producer.send(topic, b"%d" % n)
                if linger_ms == 0:
                    sent.get(timeout=30)
            producer.flush()
        finally:
            producer.close()
    assert record_counts(server, at_once) == [1] * 50
    assert max(record_counts(server, linger)) > 20
    assert sum(record_counts(server, linger)) == 50


@pytest.mark.java
def test_batches_grow_with_batch_size(server: Server, new_topic: NewTopicName) -> None:
    small, large = new_topic("small"), new_topic("large")
    lines = []
    for topic, size_bytes in ((small, 2_000), (large, 100_000)):
        lines.append(f"config\tlinger.ms=1000\tbatch.size={size_bytes}")
        lines += [java_line(topic, 0, Sent(None, b"x" * 500)) for _ in range(400)]
    run_program(
        "4.3.1", "Records", "write", server.bootstrap_servers, stdin="\n".join(lines).encode()
    )
    assert max(record_counts(server, small)) <= 4
    assert max(record_counts(server, large)) > 100
    assert max(header[1] for header in batches(server, large)) <= 100_000


@pytest.mark.parametrize(
    ("settings", "idempotent"),
    [({"enable.idempotence": False}, False), ({"enable.idempotence": True}, True)],
    ids=["plain", "idempotent"],
)
def test_sequences_are_in_the_log(
    server: Server, new_topic: NewTopicName, settings: dict[str, Any], idempotent: bool
) -> None:
    topic = new_topic("sequences")
    send_confluent(server.bootstrap_servers, topic, [b"v"] * 100, settings)
    expected_sequence = 0
    for header in batches(server, topic):
        producer_id, producer_epoch, base_sequence, count = header[9:]
        if not idempotent:
            assert (producer_id, producer_epoch, base_sequence) == (-1, -1, -1)
            continue
        assert producer_id >= 0
        assert (producer_epoch, base_sequence) == (0, expected_sequence)
        expected_sequence += count
    assert sum(record_counts(server, topic)) == 100


def test_producer_ids_differ(server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("ids")
    for _ in range(3):
        send_confluent(server.bootstrap_servers, topic, [b"v"], {"enable.idempotence": True})
    assert len({header[9] for header in batches(server, topic)}) == 3


# --- partitions -------------------------------------------------------------------------------


@pytest.mark.java
def test_the_same_key_goes_to_the_same_partition(server: Server, new_topic: NewTopicName) -> None:
    keys = [b"", b"a", b"key", "schlüssel".encode(), bytes(range(256))]
    keys += [b"key-%d" % n for n in range(50)]
    partitions = 7
    chosen: dict[str, dict[bytes, int]] = {}
    for name, send in PARTITIONERS.items():
        topic = new_topic(f"keys-{name}", partitions=partitions)
        send(server.bootstrap_servers, topic, keys)
        counts = {p: record_counts_of(server, topic, p) for p in range(partitions)}
        found = read_confluent(server.bootstrap_servers, topic, counts)
        chosen[name] = {r.key or b"": p for p, records in found.items() for r in records}
    assert chosen["java"].keys() == set(keys)
    assert len(set(chosen["java"].values())) == partitions
    for name in PARTITIONERS:
        assert chosen[name] == chosen["java"], name


def record_counts_of(server: Server, topic: str, partition: int) -> int:
    return sum(header[12] for header in batches(server, topic, partition))


def keys_java(servers: str, topic: str, keys: list[bytes]) -> None:
    lines = ["config\tlinger.ms=50", *(java_line(topic, -1, Sent(key, b"v")) for key in keys)]
    run_program("3.9.2", "Records", "write", servers, stdin="\n".join(lines).encode())


def keys_confluent(servers: str, topic: str, keys: list[bytes]) -> None:
    producer = Producer(librdkafka(servers, partitioner="murmur2_random"))
    for key in keys:
        producer.produce(topic, b"v", key)
    assert producer.flush(30) == 0


def keys_kafka_python(servers: str, topic: str, keys: list[bytes]) -> None:
    producer = KafkaProducer(bootstrap_servers=servers)
    try:
        for key in keys:
            producer.send(topic, b"v", key)
        producer.flush()
    finally:
        producer.close()


def keys_aiokafka(servers: str, topic: str, keys: list[bytes]) -> None:
    async def send() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=servers)
        await producer.start()
        try:
            await asyncio.gather(*[await producer.send(topic, b"v", key) for key in keys])
        finally:
            await producer.stop()

    asyncio.run(send())


PARTITIONERS: Final[dict[str, Callable[[str, str, list[bytes]], None]]] = {
    "java": keys_java,
    "librdkafka": keys_confluent,
    "kafka-python": keys_kafka_python,
    "aiokafka": keys_aiokafka,
}


# --- sizes ------------------------------------------------------------------------------------


def test_a_message_of_many_megabytes(server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("big", config={"max.message.bytes": str(20 * 1024 * 1024)})
    big = bytes(range(256)) * 40_000
    producer = Producer(librdkafka(server.bootstrap_servers, **{"message.max.bytes": 20_000_000}))
    for value in (b"before", big, b"after"):
        producer.produce(topic, value, partition=0)
        assert producer.flush(30) == 0
    for name in ("kafka-python", "aiokafka", "confluent"):
        found = READERS[name](server.bootstrap_servers, topic, {0: 3})[0]
        assert [record.value for record in found] == [b"before", big, b"after"], name


def test_too_large_for_the_topic(server: Server, new_topic: NewTopicName) -> None:
    topic = new_topic("narrow", config={"max.message.bytes": "5000"})
    errors: list[KafkaError] = []
    producer = Producer(librdkafka(server.bootstrap_servers))
    producer.produce(topic, b"x" * 6000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    producer.produce(topic, b"x" * 4000, on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    assert errors[0].code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert errors[1] is None
    client = KafkaProducer(bootstrap_servers=server.bootstrap_servers)
    try:
        with pytest.raises(MessageSizeTooLargeError):
            client.send(topic, b"x" * 6000).get(timeout=30)
    finally:
        client.close()


# --- codecs of topics ---------------------------------------------------------------------------

CODECS: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd")  # in the order of their numbers
MIXED: Final = [b"%06d " % n + (b"large " * 40_000 if n % 50 == 49 else b"") for n in range(400)]


@pytest.mark.parametrize("kind", ["uncompressed", "snappy", "zstd"])
def test_a_topic_has_a_codec_of_its_own(
    server: Server, admin: AdminClient, unique_name: UniqueName, kind: str
) -> None:
    topic, codec = unique_name(kind), CODECS.index(kind)
    create_topic(server.bootstrap_servers, topic, config={"compression.type": kind}, admin=admin)
    sent_in = CODECS[codec - 1].replace("uncompressed", "none")
    settings = {**IDEMPOTENT, "compression.type": sent_in, "linger.ms": 1}
    send_confluent(server.bootstrap_servers, topic, MIXED, settings)
    assert {header[5] for header in batches(server, topic)} == {codec}
    assert values_read(server.bootstrap_servers, topic) == MIXED


@pytest.mark.java
def test_java_reads_what_the_broker_compressed(
    server: Server, admin: AdminClient, unique_name: UniqueName
) -> None:
    topic = unique_name("lz4")  # the only codec whose frames are put together here
    create_topic(server.bootstrap_servers, topic, config={"compression.type": "lz4"}, admin=admin)
    send_confluent(server.bootstrap_servers, topic, MIXED, IDEMPOTENT)
    found = READERS["java-3.9.2"](server.bootstrap_servers, topic, {0: len(MIXED)})
    assert [each.value for each in found[0]] == MIXED


def test_order_through_dropped_connections_while_batches_are_compressed(
    start_server: StartServer,
) -> None:
    with CuttingProxy(seed=20221, cut_one_in=4, cuts_max=4) as proxy:
        listener = f"PLAINTEXT://{proxy.host}:{proxy.port}"
        server = start_server({"advertised.listeners": listener, "compression.type": "gzip"})
        proxy.upstream = (server.host, server.port)
        create_topic(proxy.bootstrap_servers, "ordered")
        send_confluent(proxy.bootstrap_servers, "ordered", MIXED, IDEMPOTENT)
        assert proxy.cuts >= 2
        assert values_read(server.bootstrap_servers, "ordered") == MIXED


def values_read(servers: str, topic: str) -> list[bytes | None]:
    return [record.value for record in read_confluent(servers, topic, {0: len(MIXED)})[0]]
