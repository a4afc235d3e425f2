"""What is said about topics that store batches in a codec of their own, and what they then hold."""

from collections.abc import Callable
from typing import Final

from odradek.protocol.messages.k19_create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from odradek.protocol.records import Codec, iter_batches
from odradek.protocol.records.record import records_of
from tests.support.messages import fetch_request, produce_request
from tests.wire.conversations_produce import LAST, new_producer_id
from tests.wire.raw import RawBatch, record, varint
from tests.wire.talk import Plain, Talk, batch, batches, versions

FETCH: Final = 1
TYPES: Final = ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")
RECORDS_BYTES_MAX: Final = 1 << 24
VALUES: Final = (b"a" * 20, b"b" * 20, None)


def compressed_codecs(talk: Talk) -> None:
    """Each codec to each type of topic, with the times of the producer and of the broker."""
    producer_id = new_producer_id(talk)
    for name in TYPES:
        for times in ("CreateTime", "LogAppendTime"):
            topic = talk.create(
                f"{name}-{times}", compression_type=name, message_timestamp_type=times
            )
            for number, codec in enumerate(Codec):
                label = f"{name} {times} {codec.name}"
                data = batch(
                    *VALUES,
                    codec=codec,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=3 * number,
                )
                for again in ("", " again"):
                    talk.ask(label + again, produce_request(topic, {0: data}), LAST)
                data = batch(*VALUES, codec=codec)
                talk.ask(f"{label} of nobody", produce_request(topic, {0: data}), LAST)
            talk.note(f"{name} {times}", stored(talk, topic))


def compressed_oddities(talk: Talk) -> None:
    """Headers and records that no usual client writes."""
    late = b"\0" + varint(5) + varint(0) + varint(-1) + varint(1) + b"v" + b"\0"
    marked = bytearray(record(0, b"v"))
    marked[1] = 0x7F
    odd = {
        "a first record later than its batch": RawBatch(payload=varint(len(late)) + late),
        "a record with attributes": RawBatch(payload=bytes(marked)),
        "no timestamp": RawBatch(timestamp=-1),
        "unused flags": RawBatch(attributes=0x80),
        "high flags": RawBatch(attributes=-0x8000),
        "delete horizon": RawBatch(attributes=64),
        "append time": RawBatch(attributes=8),
        "control": RawBatch(attributes=32),
        "two records": RawBatch(count=2, payload=record(0, b"v") + record(1, b"w")),
        "an epoch without an id": RawBatch(producer_epoch=7, base_sequence=9),
        "crc": RawBatch(crc_change=1),
    }
    for name in ("gzip", "producer"):
        for label, raw in odd.items():
            topic = talk.create(f"{name}-{label.replace(' ', '-')}", compression_type=name)
            talk.ask(f"{name}: {label}", produce_request(topic, {0: raw.encode()}), LAST)
            talk.note(f"{name}: {label}: log", stored(talk, topic))


def compressed_sizes(talk: Talk) -> None:
    """Limits that a batch keeps before, and not after, or the reverse."""
    packed = batch(b"x" * 5000, codec=Codec.GZIP)
    plain = batch(b"x" * 5000)
    for name in TYPES:
        topic = talk.create(f"{name}-message", compression_type=name, max_message_bytes="1000")
        for label, data in (("packed", packed), ("plain", plain)):
            talk.ask(f"{name} {label} message", produce_request(topic, {0: data}), LAST)
        topic = talk.create(f"{name}-segment", compression_type=name, segment_bytes="1000")
        for label, data in (("packed", packed), ("plain", plain)):
            talk.ask(f"{name} {label} segment", produce_request(topic, {0: data}), LAST)


def compressed_fetches(talk: Talk) -> None:
    """Topics of zstd, and of others, read in every version that has names of topics."""
    for name in ("zstd", "gzip", "producer"):
        topic = talk.create(name, compression_type=name)
        for empty in (True, False):
            if not empty:
                talk.ask(f"{name} write", produce_request(topic, {0: batch(b"v" * 99)}), LAST)
            for version in versions(FETCH, 4):
                if version < 13:
                    answer = talk.exchange(fetch_request(topic), version)
                    data = answer.responses[0].partitions[0]
                    shown = [data.error_code, data.high_watermark, bool(data.records)]
                    shown += [data.log_start_offset if version >= 5 else None]
                    talk.note(f"{name} {'empty ' * empty}v{version}", shown)


def compressed_without_acks(talk: Talk) -> None:
    """acks=0 to a topic that compresses: nothing is answered, and a failure hangs up."""
    topic = talk.create("t", compression_type="gzip", max_message_bytes="1000")
    for label, data in (("good", batch(b"x" * 500)), ("large", batch(b"x" * 5000))):
        talk.say_unanswered(label, produce_request(topic, {0: data}, acks=0), LAST)
    talk.note("log", stored(talk, topic))


def compression_settings(talk: Talk) -> None:
    """Types and levels, in and out of their bounds."""
    tried = {
        "compression.type": ("none", "ZSTD", "", "producer", "zstd", "brotli"),
        "compression.gzip.level": ("-2", "-1", "0", "1", "9", "10", "x"),
        "compression.lz4.level": ("-1", "0", "1", "9", "17", "18"),
        "compression.zstd.level": ("-131073", "-131072", "0", "22", "23"),
    }
    for name, texts in tried.items():
        for text in texts:
            config = CreatableTopicConfig(name=name, value=text)
            topic = CreatableTopic(
                name=talk.topic("t"), num_partitions=1, replication_factor=1, configs=[config]
            )
            request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)
            answer = talk.exchange(request, 7)
            talk.note(f"{name}={text}", answer.topics[0].error_code)


def stored(talk: Talk, topic: str) -> Plain:
    """The batches of a topic: every byte, or, of compressed ones, what they hold."""
    answer = talk.exchange(fetch_request(topic), 12)
    data = answer.responses[0].partitions[0].records
    shown = batches(data)
    assert isinstance(shown, list)
    for each, (position, header) in zip(shown, iter_batches(data), strict=True):
        assert isinstance(each, dict)
        if header.codec:
            whole = memoryview(data)[position : position + header.size_bytes]
            each["body"] = bytes(records_of(whole, header, RECORDS_BYTES_MAX))
            each["crc"] = each["batch_length"] = "(of other compressed bytes)"
    return shown


CONVERSATIONS: Final[tuple[Callable[[Talk], None], ...]] = (
    compressed_codecs,
    compressed_oddities,
    compressed_sizes,
    compressed_fetches,
    compressed_without_acks,
    compression_settings,
)
