"""Bytes that no client should send: the item is refused, or the connection closed; nothing else.

What Apache Kafka 3.9.2 answers was seen by running this file with --target kafka-3.9. Where Kafka
answers UNKNOWN_SERVER_ERROR, because an exception slipped through, Odradek names what is wrong.
"""

import gzip
import random
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Final

import psutil
import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.support.brokers import NewTopicName
from tests.support.connections import HungUp, RawConnection
from tests.support.frames import framed
from tests.support.waiting import until
from tests.wire.raw import (
    API_VERSIONS,
    METADATA,
    PRODUCE,
    RawBatch,
    fetch,
    produce,
    produce_errors,
    record,
    request,
    varint,
)
from tests.wire.servers import Server

NONE: Final = 0
UNKNOWN_SERVER_ERROR: Final = -1
CORRUPT_MESSAGE: Final = 2
UNKNOWN_TOPIC_OR_PARTITION: Final = 3
MESSAGE_TOO_LARGE: Final = 10
INVALID_REQUIRED_ACKS: Final = 21
UNSUPPORTED_VERSION: Final = 35
INVALID_REQUEST: Final = 42
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
INVALID_RECORD: Final = 87

GOOD: Final = RawBatch().encode()
TWO: Final = record(0, b"a") + record(1, b"b")
HEADER_BYTES: Final = 61


@pytest.fixture
def raw(server: Server) -> Iterator[RawConnection]:
    with RawConnection(server.host, server.port) as connection:
        yield connection


@pytest.fixture
def led_topic(new_topic: NewTopicName, admin: AdminClient) -> NewTopicName:
    """Like `new_topic`, but every partition has its leader: nothing here retries."""

    def make(stem: str, *, partitions: int = 1) -> str:
        name = new_topic(stem, partitions=partitions)
        wanted = {TopicPartition(name, p): OffsetSpec.latest() for p in range(partitions)}
        until(lambda: has_leaders(admin, wanted))
        return name

    return make


def has_leaders(admin: AdminClient, wanted: dict[TopicPartition, OffsetSpec]) -> bool:
    # Asked for by name, so that the client does not go by what it learnt before.
    for where in wanted:
        admin.list_topics(where.topic, timeout=30)
    try:
        for offset in admin.list_offsets(wanted).values():
            offset.result(timeout=30)
    except KafkaException:
        return False
    return True


def assert_still_serves(server: Server) -> None:
    with RawConnection(server.host, server.port) as connection:
        assert connection.ask(request(API_VERSIONS, 0))[:2] == b"\x00\x00"


def one_record(*fields: bytes) -> bytes:
    """A record with a true length, whatever its fields say."""
    body = b"".join(fields)
    return varint(len(body)) + body


START: Final = b"\x00" + varint(0) + varint(0) + varint(-1)  # attributes, deltas, no key

# --- records ----------------------------------------------------------------------------------

BAD_BATCHES: Final = {
    "crc": (RawBatch(crc_change=1).encode(), CORRUPT_MESSAGE),
    "more-records-announced": (RawBatch(payload=TWO, count=3).encode(), INVALID_RECORD),
    "fewer-records-announced": (RawBatch(payload=TWO, count=1).encode(), INVALID_RECORD),
    "last-offset-delta": (
        RawBatch(payload=TWO, count=2, last_offset_delta=5).encode(),
        INVALID_RECORD,
    ),
    "no-records": (RawBatch(payload=b"", count=0).encode(), INVALID_RECORD),
    "negative-count": (RawBatch(count=-1).encode(), INVALID_RECORD),
    "huge-count": (RawBatch(count=2**31 - 1).encode(), INVALID_RECORD),
    "magic-1": (RawBatch(magic=1).encode(), INVALID_RECORD),
    "two-batches": (GOOD + GOOD, INVALID_RECORD),
    "control-batch": (RawBatch(attributes=0x20).encode(), INVALID_RECORD),
    "producer-without-sequence": (
        RawBatch(producer_id=1, producer_epoch=0).encode(),
        INVALID_RECORD,
    ),
    "base-offset": (RawBatch(base_offset=5).encode(), INVALID_RECORD),
    "truncated": (GOOD[:-3], INVALID_RECORD),
    "header-only": (GOOD[:HEADER_BYTES], INVALID_RECORD),
    "half-a-header": (GOOD[:30], INVALID_RECORD),
    "nothing": (b"", INVALID_RECORD),
    "length-too-long": (RawBatch(length_change=10).encode(), INVALID_RECORD),
    "record-length": (RawBatch(payload=varint(100) + record(0, b"v")[1:]).encode(), INVALID_RECORD),
    "value-length": (
        RawBatch(payload=one_record(START, varint(1000), b"v", varint(0))).encode(),
        INVALID_RECORD,
    ),
    "negative-value-length": (
        RawBatch(payload=one_record(START, varint(-5), b"v", varint(0))).encode(),
        INVALID_RECORD,
    ),
    "negative-header-count": (
        RawBatch(payload=one_record(START, varint(1), b"v", varint(-1))).encode(),
        INVALID_RECORD,
    ),
    "huge-header-count": (
        RawBatch(payload=one_record(START, varint(1), b"v", varint(2**31 - 1))).encode(),
        INVALID_RECORD,
    ),
    "trailing-bytes": (RawBatch(payload=record(0, b"v") + b"xxxx").encode(), INVALID_RECORD),
    "too-large": (RawBatch(payload=record(0, b"x" * 2_000_000)).encode(), MESSAGE_TOO_LARGE),
}


@pytest.mark.parametrize("case", BAD_BATCHES)
def test_a_bad_batch_is_refused_and_the_others_go_on(
    server: Server, raw: RawConnection, led_topic: NewTopicName, case: str
) -> None:
    batch, error = BAD_BATCHES[case]
    name = led_topic("bad", partitions=3)
    answer = raw.ask(produce(name, [(0, GOOD), (1, batch), (2, GOOD)]))
    assert produce_errors(answer) == {0: NONE, 1: error, 2: NONE}
    assert (server.data_dir / f"{name}-1" / f"{0:020d}.log").stat().st_size == 0
    # The connection goes on, and so does the partition.
    assert produce_errors(raw.ask(produce(name, [(1, GOOD)]))) == {1: NONE}


# (what Odradek answers, what Apache Kafka answers)
NAMED_BY_ODRADEK: Final = {
    "codec-5": (RawBatch(attributes=5).encode(), INVALID_RECORD, UNKNOWN_SERVER_ERROR),
    "codec-7": (RawBatch(attributes=7).encode(), INVALID_RECORD, UNKNOWN_SERVER_ERROR),
    "gzip-garbage": (
        RawBatch(attributes=1, payload=b"garbage").encode(),
        CORRUPT_MESSAGE,
        UNKNOWN_SERVER_ERROR,
    ),
    "snappy-garbage": (
        RawBatch(attributes=2, payload=b"garbage").encode(),
        CORRUPT_MESSAGE,
        UNKNOWN_SERVER_ERROR,
    ),
    "lz4-garbage": (
        RawBatch(attributes=3, payload=b"garbage").encode(),
        CORRUPT_MESSAGE,
        UNKNOWN_SERVER_ERROR,
    ),
    "zstd-garbage": (
        RawBatch(attributes=4, payload=b"garbage").encode(),
        CORRUPT_MESSAGE,
        UNKNOWN_SERVER_ERROR,
    ),
    "gzip-cut-short": (
        RawBatch(attributes=1, payload=gzip.compress(record(0, b"x" * 5000))[:-20]).encode(),
        CORRUPT_MESSAGE,
        UNKNOWN_SERVER_ERROR,
    ),
    # Kafka looks at offset deltas only inside compressed batches.
    "offset-delta": (RawBatch(payload=record(7, b"v")).encode(), INVALID_RECORD, NONE),
}


@pytest.mark.parametrize("case", NAMED_BY_ODRADEK)
def test_where_odradek_is_more_exact(
    target: str, raw: RawConnection, led_topic: NewTopicName, case: str
) -> None:
    batch, ours, kafkas = NAMED_BY_ODRADEK[case]
    expected = ours if target == "odradek" else kafkas
    name = led_topic("inexact", partitions=2)
    answer = raw.ask(produce(name, [(0, batch), (1, GOOD)]))
    assert produce_errors(answer) == {0: expected, 1: NONE}


def test_partitions_that_are_not_there(raw: RawConnection, led_topic: NewTopicName) -> None:
    name = led_topic("few")
    answer = raw.ask(produce(name, [(0, GOOD), (9, GOOD), (-1, GOOD)]))
    unknown = UNKNOWN_TOPIC_OR_PARTITION
    assert produce_errors(answer) == {0: NONE, 9: unknown, -1: unknown}


@pytest.mark.parametrize("acks", [2, -2])
def test_acks_that_are_not_there(raw: RawConnection, led_topic: NewTopicName, acks: int) -> None:
    answer = raw.ask(produce(led_topic("acks"), [(0, GOOD)], acks=acks))
    assert produce_errors(answer) == {0: INVALID_REQUIRED_ACKS}


def test_zstd_before_its_version(raw: RawConnection, led_topic: NewTopicName) -> None:
    batch = RawBatch(attributes=4, payload=b"\x28\xb5\x2f\xfd").encode()
    answer = raw.ask(produce(led_topic("zstd"), [(0, batch)], version=6))
    assert produce_errors(answer, version=6) == {0: UNSUPPORTED_COMPRESSION_TYPE}


def test_sequences(raw: RawConnection, led_topic: NewTopicName) -> None:
    name = led_topic("sequences")

    def send(sequence: int) -> int:
        batch = RawBatch(producer_id=999_999, producer_epoch=0, base_sequence=sequence)
        return produce_errors(raw.ask(produce(name, [(0, batch.encode())])))[0]

    assert send(0) == NONE
    assert send(1) == NONE
    assert send(5) == OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(1) == NONE, "the same batch again is a duplicate that was appended before"
    assert send(2) == NONE
    assert raw_count(raw, name) == 3


def raw_count(raw: RawConnection, topic: str) -> int:
    """How many one-record batches a fetch returns."""
    return raw.ask(fetch(topic)).count(b"value")


def test_a_decompression_bomb(
    server: Server, raw: RawConnection, led_topic: NewTopicName, odradek_only: None
) -> None:
    """1 MB that would become 1 GB is refused by its announced or bounded size."""
    bomb = gzip.compress(record(0, b"\x00" * 1_000_000) * 1000, 9)
    before_bytes = resident_bytes(server.pid)
    batch = RawBatch(attributes=1, payload=bomb, count=1000).encode()
    (error,) = produce_errors(raw.ask(produce(led_topic("bomb"), [(0, batch)]))).values()
    assert error in (CORRUPT_MESSAGE, INVALID_RECORD, MESSAGE_TOO_LARGE)
    assert resident_bytes(server.pid) - before_bytes < 300 * 1024 * 1024
    assert_still_serves(server)


# --- requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize("size_bytes", [-1, -(2**31), 104_857_601, 2**31 - 1])
def test_frame_lengths_that_cannot_be(server: Server, raw: RawConnection, size_bytes: int) -> None:
    raw.send(struct.pack(">i", size_bytes) + b"x" * 100)
    assert raw.wait_closed()
    assert_still_serves(server)


CLOSES: Final = {
    "unknown-key": request(999, 0),
    "negative-key": request(-1, 0),
    "unknown-version": request(METADATA, 99),
    "negative-version": request(METADATA, -1),
    "empty": b"",
    "short-header": b"abc",
    "lying-client-id": struct.pack(">hhih", METADATA, 1, 1, 1000) + b"x",
    "lying-array": request(METADATA, 1, struct.pack(">i", 2**31 - 1)),
    "lying-string": request(METADATA, 1, struct.pack(">ih", 1, 30_000) + b"abc"),
    "cut-produce": produce("topic", [(0, GOOD)])[:-10],
    "lying-records": request(PRODUCE, 8, struct.pack(">hhiih1sii", -1, 1, 1000, 1, 1, b"t", 1, 0)),
}


@pytest.mark.parametrize("case", CLOSES)
def test_requests_that_close_the_connection(server: Server, raw: RawConnection, case: str) -> None:
    raw.send_frame(CLOSES[case])
    assert raw.wait_closed()
    assert_still_serves(server)


@pytest.mark.parametrize("version", [-1, 99])
def test_an_unknown_version_of_api_versions_is_answered(raw: RawConnection, version: int) -> None:
    """In v0: UNSUPPORTED_VERSION and the one entry that says which versions there are."""
    # The header of an unknown version is read as the newest, with tagged fields.
    answer = raw.ask(request(API_VERSIONS, version, b"\x00" if version > 0 else b""))
    error, count, api_key, first, last = struct.unpack(">hihhh", answer)
    assert (error, count, api_key, first) == (UNSUPPORTED_VERSION, 1, API_VERSIONS, 0)
    assert last >= 3
    assert raw.ask(request(API_VERSIONS, 0))[:2] == b"\x00\x00"


def test_api_versions_without_a_software_name(raw: RawConnection) -> None:
    answer = raw.ask(request(API_VERSIONS, 3, b"\x00" + b"\x01\x01" + b"\x00"))
    assert struct.unpack(">h", answer[:2]) == (INVALID_REQUEST,)


def test_random_bytes(server: Server, led_topic: NewTopicName) -> None:
    """Random frames, and good ones with random bytes changed: closed or answered, never stuck."""
    chance = random.Random(4)
    name = led_topic("noise")
    good = [
        produce(name, [(0, GOOD)]),
        fetch(name),
        request(METADATA, 1, struct.pack(">i", 0)),
        request(API_VERSIONS, 0),
    ]
    outcomes: Counter[str] = Counter()
    for _ in range(300):
        body = bytearray(chance.choice(good))
        if chance.random() < 0.3:
            body = bytearray(chance.randbytes(chance.randrange(1, 200)))
        for _ in range(chance.randrange(1, 6)):
            body[chance.randrange(len(body))] = chance.randrange(256)
        outcomes[answered_or_closed(server, bytes(body))] += 1
    assert_still_serves(server)
    assert outcomes["answered"] > 30
    assert outcomes["closed"] > 100
    # Random bytes may ask for a fetch that waits for weeks, or for no answer at all.
    assert outcomes["waits"] < 30


def answered_or_closed(server: Server, body: bytes) -> str:
    """What happened to a good request behind `body` on the same connection."""
    with RawConnection(server.host, server.port) as connection:
        connection.socket.settimeout(0.5)
        try:
            connection.send_frame(body)
            connection.send_frame(request(API_VERSIONS, 0, correlation_id=77))
            while connection.read_frame()[:4] != struct.pack(">i", 77):
                pass
        except HungUp:
            return "closed"
        except TimeoutError:
            return "waits"
    return "answered"


def test_byte_by_byte(raw: RawConnection) -> None:
    body = request(API_VERSIONS, 0, correlation_id=5)
    for byte in framed(body):
        raw.send(bytes([byte]))
    assert raw.read_frame()[:6] == struct.pack(">ih", 5, 0)


def test_many_requests_at_once_are_answered_in_order(
    raw: RawConnection, led_topic: NewTopicName
) -> None:
    name = led_topic("pipelined")
    kinds = [request(API_VERSIONS, 0), fetch(name), produce(name, [(0, GOOD)])]
    frames = bytearray()
    for number in range(300):
        body = bytearray(kinds[number % 3])
        body[4:8] = struct.pack(">i", number)
        frames += framed(body)
    raw.socket.settimeout(60)
    raw.send(bytes(frames))
    answered = [struct.unpack(">i", raw.read_frame()[:4])[0] for _ in range(300)]
    assert answered == list(range(300))


# --- memory -----------------------------------------------------------------------------------


def resident_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def test_announced_frames_reserve_no_memory(server: Server, odradek_only: None) -> None:
    before_bytes = resident_bytes(server.pid)
    connections = [RawConnection(server.host, server.port) for _ in range(50)]
    try:
        for connection in connections:
            connection.send(struct.pack(">i", 100_000_000) + b"x" * 1000)
        assert_still_serves(server)
        assert resident_bytes(server.pid) - before_bytes < 10 * 1024 * 1024
    finally:
        for connection in connections:
            connection.socket.close()


def test_a_client_that_stops_reading(
    server: Server, led_topic: NewTopicName, odradek_only: None
) -> None:
    """200 answers of 1 MB asked for and never read: the broker stops, it does not collect them."""
    name = led_topic("slow")
    big = RawBatch(payload=record(0, b"x" * 900_000)).encode()
    with RawConnection(server.host, server.port) as writer:
        for _ in range(4):
            assert produce_errors(writer.ask(produce(name, [(0, big)]))) == {0: NONE}
    before_bytes = resident_bytes(server.pid)
    with RawConnection(server.host, server.port) as reader:
        for _ in range(200):
            reader.send_frame(fetch(name, size_bytes_max=4_000_000))
        for _ in range(20):
            assert_still_serves(server)
        assert resident_bytes(server.pid) - before_bytes < 20 * 1024 * 1024
        for _ in range(200):
            assert len(reader.read_frame()) > 900_000
