"""Every client of the suite behind two functions: write records by partition, read them back.

No consumer here subscribes: all read by assignment, from the beginning, a known count.
librdkafka commits where it was, as it does by itself; its consumers must name a group.
"""

import asyncio
import base64
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer
from confluent_kafka import TopicPartition as ConfluentTopicPartition
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.kafka.java import run_program
from tests.wire.records import Sent

READ_TIMEOUT_S: Final = 60.0
# What to write: (partition, codec, records); what was read: records by partition.
Batches = Sequence[tuple[int, str, Sequence[Sent]]]
ByPartition = dict[int, list[Sent]]
Settings = dict[str, str | float | bool]
Write = Callable[[str, str, Batches], None]
Read = Callable[[str, str, Mapping[int, int]], ByPartition]


class ClientFailed(Exception):
    """A client reported an error, or did not deliver in time."""


def write_kafka_python(servers: str, topic: str, batches: Batches) -> None:
    for partition, codec, records in batches:
        producer = KafkaProducer(
            bootstrap_servers=servers,
            compression_type=None if codec == "none" else codec,
            linger_ms=50,
        )
        try:
            sent = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=partition,
                    timestamp_ms=record.timestamp,
                )
                for record in records
            ]
            producer.flush()
            for future in sent:
                future.get(timeout=30)
        finally:
            producer.close()


def read_kafka_python(servers: str, topic: str, counts: Mapping[int, int]) -> ByPartition:
    consumer = KafkaConsumer(bootstrap_servers=servers, group_id=None)
    found: ByPartition = {partition: [] for partition in counts}
    try:
        assigned = [TopicPartition(topic, partition) for partition in counts]
        consumer.assign(assigned)
        consumer.seek_to_beginning(*assigned)
        deadline = Deadline(f"kafka-python read of {topic}")
        while deadline.wants(counts, found):
            for where, records in consumer.poll(timeout_ms=200).items():
                found[where.partition] += [
                    Sent(r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                ]
    finally:
        consumer.close()
    return found


def write_aiokafka(servers: str, topic: str, batches: Batches) -> None:
    async def write() -> None:
        for partition, codec, records in batches:
            producer = AIOKafkaProducer(
                bootstrap_servers=servers,
                compression_type=None if codec == "none" else codec,
                linger_ms=50,
            )
            await producer.start()
            try:
                sent = [
                    await producer.send(
                        topic,
                        key=record.key,
                        value=record.value,
                        headers=list(record.headers),
                        partition=partition,
                        timestamp_ms=record.timestamp,
                    )
                    for record in records
                ]
                await asyncio.gather(*sent)
            finally:
                await producer.stop()

    asyncio.run(write())


def read_aiokafka(servers: str, topic: str, counts: Mapping[int, int]) -> ByPartition:
    async def read() -> ByPartition:
        consumer = AIOKafkaConsumer(bootstrap_servers=servers, group_id=None)
        await consumer.start()
        found: ByPartition = {partition: [] for partition in counts}
        try:
            assigned = [AioTopicPartition(topic, partition) for partition in counts]
            consumer.assign(assigned)
            await consumer.seek_to_beginning(*assigned)
            deadline = Deadline(f"aiokafka read of {topic}")
            while deadline.wants(counts, found):
                for where, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[where.partition] += [
                        Sent(r.key, r.value, tuple(r.headers), r.timestamp) for r in records
                    ]
        finally:
            await consumer.stop()
        return found

    return asyncio.run(read())


def librdkafka(servers: str, **settings: str | float | bool) -> Settings:
    """Settings of a librdkafka client that does not tell stderr when its broker goes away."""
    return {"bootstrap.servers": servers, "log_level": 0, **settings}


def write_confluent(servers: str, topic: str, batches: Batches) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    for partition, codec, records in batches:
        settings: Settings = {"compression.type": codec, "linger.ms": 50}
        producer = Producer(librdkafka(servers, **settings))
        for record in records:
            producer.produce(
                topic,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
                partition=partition,
                timestamp=record.timestamp,
                on_delivery=delivered,
            )
        if producer.flush(30) or failures:
            raise ClientFailed(f"confluent-kafka: {failures}")


def read_confluent(servers: str, topic: str, counts: Mapping[int, int]) -> ByPartition:
    consumer = Consumer(librdkafka(servers, **{"group.id": "readers"}))
    found: ByPartition = {partition: [] for partition in counts}
    try:
        consumer.assign([ConfluentTopicPartition(topic, p, OFFSET_BEGINNING) for p in counts])
        deadline = Deadline(f"confluent-kafka read of {topic}")
        while deadline.wants(counts, found):
            for message in consumer.consume(500, timeout=0.2):
                if message.error() is not None:
                    raise ClientFailed(str(message.error()))
                found[message.partition()].append(
                    Sent(
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                        message.timestamp()[1],
                    )
                )
    finally:
        consumer.close()
    return found


def java_writer(version: str) -> Write:
    """The Java producer of one Kafka version, through `Records.java`."""

    def write(servers: str, topic: str, batches: Batches) -> None:
        lines = []
        for partition, codec, records in batches:
            lines.append(f"config\tcompression.type={codec}\tlinger.ms=50")
            lines += [java_line(topic, partition, record) for record in records]
        run_program(version, "Records", "write", servers, stdin="\n".join(lines).encode())

    return write


def java_reader(version: str) -> Read:
    """The Java consumer of one Kafka version, through `Records.java`."""

    def read(servers: str, topic: str, counts: Mapping[int, int]) -> ByPartition:
        wanted = [str(number) for pair in counts.items() for number in pair]
        ended = run_program(version, "Records", "read", servers, topic, *wanted)
        found: ByPartition = {partition: [] for partition in counts}
        for line in ended.stdout.splitlines():
            _, _, partition, timestamp, key, value, headers = line.split("\t")
            parts = [header.split(":") for header in headers.split(",") if header]
            found[int(partition)].append(
                Sent(
                    _bytes(key),
                    _bytes(value),
                    tuple(((_bytes(name) or b"").decode(), _bytes(body)) for name, body in parts),
                    int(timestamp),
                )
            )
        return found

    return read


def java_line(topic: str, partition: int, record: Sent) -> str:
    """One record as `Records.java` reads it."""
    headers = ",".join(f"{_text(k.encode())}:{_text(v)}" for k, v in record.headers)
    body = f"{_text(record.key)}\t{_text(record.value)}\t{headers}"
    return f"{topic}\t{partition}\t{record.timestamp}\t{body}"


def read_kcat_raw(servers: str, topic: str, partition: int, count: int) -> list[tuple[bytes, ...]]:
    """(timestamp, headers as kcat prints them, key, value) by kcat, null as b"NULL"."""
    command = ["kcat", "-C", "-q", "-b", servers, "-t", topic, "-p", str(partition)]
    command += ["-o", "beginning", "-c", str(count), "-e"]
    command += ["-f", "%T %K %S %k%s%h\\n\\036"]
    done = subprocess.run(command, capture_output=True, timeout=READ_TIMEOUT_S)
    if done.returncode != 0:
        raise ClientFailed(f"kcat: {done.stderr.decode(errors='replace')}")
    found: list[tuple[bytes, ...]] = []
    for chunk in done.stdout.split(b"\n\x1e")[:-1]:
        timestamp, key_size, value_size, rest = chunk.split(b" ", 3)
        key_bytes, value_bytes = max(0, int(key_size)), max(0, int(value_size))
        key = b"NULL" if int(key_size) < 0 else rest[:key_bytes]
        value = rest[key_bytes : key_bytes + value_bytes]
        value = b"NULL" if int(value_size) < 0 else value
        found.append((timestamp, rest[key_bytes + value_bytes :], key, value))
    return found


class Deadline:
    """Ends a read that does not get what it waits for."""

    def __init__(self, doing: str, seconds: float = READ_TIMEOUT_S):
        self._doing = doing
        self._end = time.monotonic() + seconds

    def wants(self, counts: Mapping[int, int], found: ByPartition) -> bool:
        """Whether records are still missing.  Raises: ClientFailed when it is too late."""
        missing = sum(counts.values()) - sum(len(records) for records in found.values())
        if missing > 0 and time.monotonic() > self._end:
            raise ClientFailed(f"{self._doing}: {missing} records did not come")
        return missing > 0


WRITERS: Final[dict[str, Write]] = {
    "kafka-python": write_kafka_python,
    "aiokafka": write_aiokafka,
    "confluent": write_confluent,
    "java-3.9.2": java_writer("3.9.2"),
    "java-4.3.1": java_writer("4.3.1"),
}
READERS: Final[dict[str, Read]] = {
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
    "confluent": read_confluent,
    "java-3.9.2": java_reader("3.9.2"),
    "java-4.3.1": java_reader("4.3.1"),
}


def _text(data: bytes | None) -> str:
    return "-" if data is None else "=" + base64.b64encode(data).decode()


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else base64.b64decode(text[1:])
