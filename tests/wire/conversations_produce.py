"""What is said about Produce, and what the log then holds."""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from odradek.protocol.messages.k00_produce import ProduceRequest, TopicProduceData
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.records import Codec
from odradek.protocol.records.batch import seal
from tests.support.messages import fetch_request, produce_request
from tests.support.waiting import until
from tests.wire.raw import RawBatch, record, varint
from tests.wire.talk import DEADLINE_S, TIMESTAMP, Talk, batch, versions

PRODUCE = 0
LAST = 11
FAR = 400 * 24 * 3_600_000
INT32_MAX = 2**31 - 1

Data = bytes | bytearray | None


def produce_versions(talk: Talk) -> None:
    """A good batch, an unknown topic and an unknown partition, in every version."""
    for version in versions(PRODUCE):
        topic = talk.create(f"t{version}")
        for acks in (1, -1):
            request = produce_request(topic, {0: batch(b"a", b"b")}, acks=acks)
            talk.ask(f"v{version} acks={acks}", request, version)
        bad = produce_request(topic, {7: batch(b"a"), -1: batch(b"a")}, acks=1)
        talk.ask(f"v{version} partition", bad, version)
        bad = produce_request(talk.topic("absent"), {0: batch(b"a")}, acks=1)
        talk.ask(f"v{version} topic", bad, version)
        talk.ask(f"v{version} acks=2", produce_request(topic, {0: batch(b"a")}, acks=2), version)
        talk.ask(f"v{version} empty", ProduceRequest(acks=1, timeout_ms=100), version)
        no_data = ProduceRequest(acks=1, timeout_ms=100, topic_data=[TopicProduceData(name=topic)])
        talk.ask(f"v{version} no partition", no_data, version)
        zstd = produce_request(topic, {0: batch(b"a" * 100, codec=Codec.ZSTD)}, acks=1)
        talk.ask(f"v{version} zstd", zstd, version)
        wrong = produce_request(topic, {0: bytes(RawBatch(crc_change=1).encode())}, acks=1)
        talk.ask(f"v{version} crc", wrong, version)
        read(talk, f"v{version} log", topic)


def produce_batch_faults(talk: Talk) -> None:
    """Everything that can be wrong with one batch, each in a partition of its own."""
    faults = list(batch_faults())
    topic = talk.create("t", len(faults))
    for partition, (label, data) in enumerate(faults):
        talk.ask(label, produce_request(topic, {partition: data}, acks=1), LAST)
        read(talk, f"{label}: log", topic, partition)


def batch_faults() -> Iterator[tuple[str, Data]]:
    """Names and bytes."""
    two = record(0, b"v") + record(1, b"w")
    yield "empty bytes", b""
    yield "one byte", b"\0"
    yield "16 bytes", bytes(16)
    yield "17 bytes", bytes(17)
    yield "60 bytes", RawBatch().encode()[:60]
    yield "header only", RawBatch().encode()[:61]
    yield "cut", RawBatch().encode()[:-1]
    yield "one byte more", RawBatch().encode() + b"\0"
    yield "20 zeros more", RawBatch().encode() + bytes(20)
    yield "two batches", RawBatch().encode() * 2
    yield "a good one and a cut one", RawBatch().encode() + RawBatch().encode()[:-1]
    for magic in (-1, 0, 1, 3, 127):
        yield f"magic {magic}", RawBatch(magic=magic).encode()
    yield "message set v1", message_set(1)
    yield "message set v0", message_set(0)
    yield "length less", RawBatch(length_change=-1).encode()
    yield "length more", RawBatch(length_change=1).encode()
    yield "length 48", struct.pack(">qi", 0, 48) + RawBatch().encode()[12:60]
    yield "length 13", struct.pack(">qi", 0, 13) + RawBatch().encode()[12:25]
    yield "length 0", struct.pack(">qi", 0, 0) + RawBatch().encode()[12:]
    yield "length negative", struct.pack(">qi", 0, -5) + RawBatch().encode()[12:]
    yield "crc", RawBatch(crc_change=1).encode()
    yield "base offset 5", RawBatch(base_offset=5).encode()
    yield "base offset -1", RawBatch(base_offset=-1).encode()
    for codec in (5, 6, 7):
        yield f"codec {codec}", RawBatch(attributes=codec).encode()
    for codec in (1, 2, 3, 4):
        yield f"codec {codec} with plain bytes", RawBatch(attributes=codec).encode()
        yield f"codec {codec} with nothing", RawBatch(attributes=codec, payload=b"").encode()
    yield "log append time flag", RawBatch(attributes=8).encode()
    yield "transactional", RawBatch(attributes=16).encode()
    yield "control", RawBatch(attributes=32).encode()
    yield "delete horizon flag", RawBatch(attributes=64).encode()
    yield "unused flag", RawBatch(attributes=128).encode()
    yield "high flags", RawBatch(attributes=-0x8000).encode()
    for count, delta in ((0, 0), (0, -1), (2, 1), (1, 1), (2, 0), (-1, 0), (3, 1), (1, -1)):
        payload = record(0, b"v") if count < 2 else two
        shown = f"count {count}, last delta {delta}"
        yield shown, RawBatch(count=count, last_offset_delta=delta, payload=payload).encode()
    yield "two records, count 1", RawBatch(count=1, payload=two).encode()
    yield "no records, count 0", RawBatch(count=0, last_offset_delta=0, payload=b"").encode()
    yield "no records, delta -1", RawBatch(count=0, last_offset_delta=-1, payload=b"").encode()
    yield "no records, count 1", RawBatch(payload=b"").encode()
    yield "huge count", RawBatch(count=INT32_MAX, last_offset_delta=INT32_MAX - 1).encode()
    yield "first delta 1", RawBatch(payload=record(1, b"v")).encode()
    yield "deltas 0 0", RawBatch(count=2, payload=record(0, b"v") * 2).encode()
    yield "deltas 1 0", RawBatch(count=2, payload=record(1, b"v") + record(0, b"v")).encode()
    yield "deltas 0 2", RawBatch(count=2, payload=record(0, b"v") + record(2, b"v")).encode()
    yield "record length too long", raw_payload(varint(99) + record(0, b"v")[1:])
    yield "record length too short", raw_payload(varint(3) + record(0, b"v")[1:])
    yield "record length negative", raw_payload(varint(-1) + record(0, b"v")[1:])
    yield "record length overflows", raw_payload(b"\xff" * 5 + record(0, b"v")[1:])
    yield "bytes after the record", raw_payload(record(0, b"v") + b"\0")
    yield "value longer than record", raw_payload(sized(fields(value_size=50)))
    yield "value size -2", raw_payload(sized(fields(value_size=-2)))
    yield "key size -2", raw_payload(sized(fields(key_size=-2)))
    yield "null value", raw_payload(sized(fields(value_size=-1, value=b"")))
    yield "header count -1", raw_payload(sized(fields(headers=varint(-1))))
    yield "header count 5", raw_payload(sized(fields(headers=varint(5))))
    yield "header key null", raw_payload(sized(fields(headers=varint(1) + varint(-1) + varint(0))))
    header = varint(1) + varint(1) + b"k" + varint(-1)
    yield "header value null", raw_payload(sized(fields(headers=header)))
    yield (
        "header key not utf-8",
        raw_payload(sized(fields(headers=varint(1) + varint(1) + b"\xff" + varint(-1)))),
    )
    yield "byte after headers", raw_payload(sized(fields() + b"\0"))
    yield "record attributes", raw_payload(sized(b"\x7f" + fields()[1:]))


def raw_payload(payload: bytes) -> bytes:
    """A batch that claims one record."""
    return RawBatch(payload=payload).encode()


def fields(
    *, key_size: int = -1, value_size: int = 1, value: bytes = b"v", headers: bytes = b"\0"
) -> bytes:
    """The inside of a record."""
    return b"\0" + varint(0) + varint(0) + varint(key_size) + varint(value_size) + value + headers


def sized(body: bytes) -> bytes:
    """A record."""
    return varint(len(body)) + body


def message_set(magic: int) -> bytes:
    """One message in the format before batches, with a right CRC-32."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", TIMESTAMP) if magic else b"")
    body += struct.pack(">i", -1) + struct.pack(">i", 1) + b"v"
    message = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", 0, len(message)) + message


def produce_timestamps(talk: Talk) -> None:
    """Create time and append time, the limits of both, and timestamps that lie."""
    create = talk.create("create")
    append = talk.create("append", message_timestamp_type="LogAppendTime")
    limited = talk.create("limited", message_timestamp_difference_max_ms="1000")
    after = talk.create("after", message_timestamp_after_max_ms="1000")
    strict = talk.create("strict", message_timestamp_before_max_ms="1000")
    one = record(0, b"v")
    cases: list[tuple[str, Data]] = [
        ("now-ish", batch(b"a", b"b")),
        ("zero", batch(b"a", timestamp=0)),
        ("-1", RawBatch(timestamp=-1, payload=one).encode()),
        ("-2", RawBatch(timestamp=-2, payload=one).encode()),
        ("future", batch(b"a", b"b", timestamp=TIMESTAMP + 20 * FAR)),
        ("max", RawBatch(timestamp=2**63 - 1, payload=one).encode()),
        ("append flag", RawBatch(attributes=8, payload=one).encode()),
        (
            "append flag, two",
            RawBatch(attributes=8, count=2, payload=one + record(1, b"w")).encode(),
        ),
        ("append flag, gzip", batch(b"a", b"b", codec=Codec.GZIP, append_time_ms=TIMESTAMP)),
        ("three", batch(b"a", b"b", b"c")),
        ("compressed", batch(b"a" * 50, b"b" * 50, codec=Codec.GZIP)),
    ]
    cases = [(label, bytes(data or b"")) for label, data in cases]
    for topic in (create, append, limited, after, strict):
        for label, data in cases:
            for version in (3, 8, LAST):
                request = produce_request(topic, {0: data}, acks=1)
                answer = talk.ask(f"{topic[-6:]} {label} v{version}", request, version)
                offset = answer.responses[0].partition_responses[0].base_offset
                if offset >= 0:
                    written = fetch_request(topic, offset, partition_max_bytes=1)
                    talk.ask(f"{topic[-6:]} {label} v{version} log", written, 12)
    lying = bytearray(batch(b"a", b"b"))
    struct.pack_into(">q", lying, 35, TIMESTAMP + 99)
    seal(lying)
    talk.ask("max timestamp lies", produce_request(create, {0: lying}, acks=1), LAST)
    read(talk, "log", create)


def produce_limits(talk: Talk) -> None:
    """Sizes, compaction, and several partitions of which some fail."""
    small = talk.create("small", max_message_bytes="200", segment_bytes="1000000")
    for size in (60, 110, 120, 122, 123, 124, 125, 126, 127, 128, 129, 130, 300):
        talk.ask(f"{size}", produce_request(small, {0: batch(b"x" * size)}, acks=1), LAST)
    big = bytearray(batch(b"x" * 300))
    big[20] ^= 1
    talk.ask("large and bad crc", produce_request(small, {0: big}, acks=1), LAST)
    talk.ask(
        "large compressed", produce_request(small, {0: batch(b"x" * 5000, codec=1)}, acks=1), LAST
    )
    segment = talk.create("segment", segment_bytes="200")
    talk.ask("segment", produce_request(segment, {0: batch(b"x" * 300)}, acks=1), LAST)
    compacted = talk.create("compacted", cleanup_policy="compact")
    for version in versions(PRODUCE, 3):
        keyless = produce_request(compacted, {0: RawBatch().encode()}, acks=1)
        talk.ask(f"keyless v{version}", keyless, version)
    three = record(0, b"v") + sized(
        b"\0" + varint(0) + varint(1) + varint(1) + b"k" + varint(-1) + b"\0"
    )
    three += record(2, b"v")
    mixed = RawBatch(count=3, payload=three).encode()
    talk.ask("some keyless", produce_request(compacted, {0: mixed}, acks=1), LAST)
    several = talk.create("several", 3)
    request = produce_request(
        several,
        {2: batch(b"a"), 0: RawBatch(crc_change=1).encode(), 9: batch(b"b"), 1: batch(b"c")},
    )
    for version in versions(PRODUCE, 3):
        talk.ask(f"several v{version}", request, version)
    for partition in range(3):
        read(talk, f"log {partition}", several, partition)


def produce_twice(talk: Talk) -> None:
    """A topic, and a partition, named twice in one request."""
    several = talk.create("several")
    twice = produce_request(several, {0: batch(b"a")})
    twice.topic_data.append(produce_request(several, {0: batch(b"b")}).topic_data[0])
    talk.ask("topic twice", twice, LAST)
    twice = produce_request(several, {0: batch(b"a")})
    twice.topic_data[0].partition_data *= 2
    talk.ask("partition twice", twice, LAST)


def produce_without_acks(talk: Talk) -> None:
    """acks=0: nothing is answered, and a failure hangs up."""
    topic = talk.create("t")
    for label, data in (("good", batch(b"a")), ("bad", RawBatch(crc_change=1).encode())):
        talk.say_unanswered(label, produce_request(topic, {0: data}, acks=0), LAST)
    absent = produce_request(talk.topic("absent"), {0: batch(b"a")}, acks=0)
    talk.say_unanswered("absent", absent, LAST)
    talk.say_unanswered("nothing", ProduceRequest(acks=0, timeout_ms=1), LAST)
    read(talk, "log", topic)
    talk.say_unanswered("v2", produce_request(topic, {0: batch(b"a")}, acks=0), 2)


def idempotent_sequences(talk: Talk) -> None:
    """Duplicates, gaps, new epochs and the wrap-around of sequences."""
    topic = talk.create("t")
    mine = new_producer_id(talk)

    def send(label: str, epoch: int, sequence: int, count: int = 1, who: int = mine) -> None:
        data = batch(*[b"v"] * count, producer_id=who, producer_epoch=epoch, base_sequence=sequence)
        talk.ask(f"{len(talk.answers):03} {label}", produce_request(topic, {0: data}), LAST)

    send("first", 0, 0)
    send("its duplicate", 0, 0)
    send("gap", 0, 5)
    send("next, of three", 0, 1, 3)
    send("part of it", 0, 1, 2)
    send("end of it", 0, 2, 2)
    send("duplicate of three", 0, 1, 3)
    for sequence in range(4, 10):
        send(f"sequence {sequence}", 0, sequence)
    send("duplicate, the oldest kept", 0, 5)
    send("duplicate, no longer kept", 0, 4)
    send("much older", 0, 0)
    send("new epoch with a gap", 1, 3)
    send("new epoch", 1, 0)
    send("old epoch", 0, 10)
    send("old epoch's duplicate", 0, 9)
    send("new epoch's duplicate", 1, 0)
    send("epoch 5", 5, 0)
    send("epoch 32767", 32767, 0)
    other = mine + 100_000
    send("unknown producer, sequence 7", 0, 7, who=other)
    send("goes on", 0, 8, who=other)
    send("epoch 3 of unknown", 3, 0, who=other + 1)
    send("near the end", 0, INT32_MAX - 1, who=other + 2)
    send("over the end", 0, INT32_MAX, 3, who=other + 2)
    send("its duplicate", 0, INT32_MAX, 3, who=other + 2)
    send("after the end", 0, 2, who=other + 2)
    send("in one go", 0, INT32_MAX - 1, 5, who=other + 3)
    send("after it", 0, 3, who=other + 3)
    send("no sequence", 0, -1, who=other + 4)
    send("sequence -2", 0, -2, who=other + 4)
    send("id -2", 0, 0, who=-2)
    two = batch(b"a", producer_id=mine, producer_epoch=32767, base_sequence=1)
    talk.ask("two batches", produce_request(topic, {0: bytes(two) * 2}), LAST)
    negative = batch(b"a", producer_id=other, producer_epoch=-1, base_sequence=0)
    unlogged = talk.create("epoch")
    talk.ask("no epoch", produce_request(unlogged, {0: negative}), LAST)
    append = talk.create("append", message_timestamp_type="LogAppendTime")
    for again in range(2):
        data = batch(b"a", producer_id=mine, producer_epoch=0, base_sequence=0)
        talk.ask(f"append time {again}", produce_request(append, {0: data}), LAST)
    read(talk, "log", topic)


def new_producer_id(talk: Talk) -> int:
    """A producer id; Kafka has none to give in its first moments."""
    answers: list[Any] = []

    def is_given() -> bool:
        answers.append(talk.exchange(InitProducerIdRequest(transactional_id=None), 5))
        return bool(answers[-1].error_code == 0)

    until(is_given, lambda: answers[-1], DEADLINE_S)
    producer_id: int = answers[-1].producer_id
    return producer_id


def transactional_batches(talk: Talk) -> None:
    """What needs a transaction, which nobody began."""
    topic = talk.create("t")
    data = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True)
    control = batch(b"a", producer_id=1, producer_epoch=0, base_sequence=0, is_control=True)
    talk.ask("control", produce_request(topic, {0: control}), LAST)
    for version in versions(PRODUCE, 3):
        request = produce_request(topic, {0: data})
        talk.ask(f"v{version}", request, version)
    named = produce_request(topic, {0: batch(b"a")})
    named.transactional_id = "mine"
    talk.ask("id without transactional batch", named, LAST)


def read(talk: Talk, label: str, topic: str, partition: int = 0, **more: Any) -> None:
    """Note all that a partition holds, byte for byte."""
    talk.ask(label, fetch_request(topic, 0, partition=partition, **more), 12)


CONVERSATIONS: tuple[Callable[[Talk], None], ...] = (
    produce_versions,
    produce_batch_faults,
    produce_timestamps,
    produce_limits,
    produce_twice,
    produce_without_acks,
    idempotent_sequences,
    transactional_batches,
)
