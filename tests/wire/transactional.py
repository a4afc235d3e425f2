"""Transactional producers and readers of committed records, of every client, behind one face."""

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Final, Protocol, Self

import aiokafka
import confluent_kafka
import kafka
import kafka.structs

from tests.kafka.java import command_line
from tests.wire.clients import ClientFailed, Settings, librdkafka

TIMEOUT_MS: Final = 60_000
READ_TIMEOUT_S: Final = 60.0


class Transactional(Protocol):
    """A producer whose InitProducerId was answered; each method returns when it is answered."""

    def begin(self) -> None: ...
    def send(self, topic: str, value: str, partition: int = 0) -> None: ...
    def send_offset(self, group_id: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 in the transaction, without a member."""

    def commit(self) -> None: ...
    def abort(self) -> None: ...
    def close(self) -> None: ...


class Librdkafka:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        settings: Settings = {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": timeout_ms,
        }
        self._servers = servers
        self._producer = confluent_kafka.Producer(librdkafka(servers, **settings))
        self._producer.init_transactions(30)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        failed: list[confluent_kafka.KafkaError] = []

        def delivered(error: confluent_kafka.KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        self._producer.produce(topic, value, partition=partition, on_delivery=delivered)
        if self._producer.flush(30) or failed:
            raise confluent_kafka.KafkaException(*failed)

    def send_offset(self, group_id: str, topic: str, offset: int) -> None:
        consumer = confluent_kafka.Consumer(librdkafka(self._servers, **{"group.id": group_id}))
        try:
            self._producer.send_offsets_to_transaction(
                [confluent_kafka.TopicPartition(topic, 0, offset)],
                consumer.consumer_group_metadata(),
                30,
            )
        finally:
            consumer.close()

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)

    def close(self) -> None:
        self._producer.purge()


class KafkaPython:
    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
        )
        self._producer.init_transactions()

    def begin(self) -> None:
        self._producer.begin_transaction()

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._producer.send(topic, value.encode(), partition=partition).get(timeout=30)

    def send_offset(self, group_id: str, topic: str, offset: int) -> None:
        where = kafka.TopicPartition(topic, 0)
        metadata = kafka.structs.OffsetAndMetadata(offset, "", -1)
        self._producer.send_offsets_to_transaction({where: metadata}, group_id)

    def commit(self) -> None:
        self._producer.commit_transaction()

    def abort(self) -> None:
        self._producer.abort_transaction()

    def close(self) -> None:
        self._producer.close(timeout=0)


class Aiokafka:
    """Its event loop runs while one of these methods does."""

    def __init__(self, servers: str, transactional_id: str, timeout_ms: int) -> None:
        async def start() -> aiokafka.AIOKafkaProducer:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=servers,
                transactional_id=transactional_id,
                transaction_timeout_ms=timeout_ms,
            )
            await producer.start()
            return producer

        self._runner = asyncio.Runner()
        self._producer = self._runner.run(start())

    def begin(self) -> None:
        self._runner.run(self._producer.begin_transaction())

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        sending = self._producer.send_and_wait(topic, value.encode(), partition=partition)
        self._runner.run(sending)

    def send_offset(self, group_id: str, topic: str, offset: int) -> None:
        offsets = {aiokafka.TopicPartition(topic, 0): offset}
        self._runner.run(self._producer.send_offsets_to_transaction(offsets, group_id))

    def commit(self) -> None:
        self._runner.run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._runner.run(self._producer.abort_transaction())

    def close(self) -> None:
        self._runner.run(self._producer.stop())
        self._runner.close()


class JavaFailed(Exception):
    """What a Java producer threw; the text is the name of its class."""


class Java:
    """`Transactions.java`: a JVM with any number of producers; a context manager."""

    def __init__(self, version: str, servers: str) -> None:
        self._process = subprocess.Popen(
            command_line(version, "Transactions", servers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._count = 0

    def ask(self, *words: object) -> list[str]:
        """What it tells.  Raises: JavaFailed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer, *told = self._process.stdout.readline().rstrip("\n").split("\t")
        if answer != "ok":
            raise JavaFailed(answer.removeprefix("failed "))
        return told

    def open(self, servers: str, transactional_id: str, timeout_ms: int) -> "JavaProducer":
        self._count += 1
        return JavaProducer(self, str(self._count), transactional_id, timeout_ms)

    def read(self, servers: str, topic: str, isolation_level: str, last: str) -> list[str]:
        return self.ask("read", topic, 0, isolation_level, last)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


class JavaProducer:
    def __init__(self, java: Java, name: str, transactional_id: str, timeout_ms: int) -> None:
        self._java = java
        self._name = name
        java.ask("open", name, transactional_id, timeout_ms)

    def begin(self) -> None:
        self._java.ask("begin", self._name)

    def send(self, topic: str, value: str, partition: int = 0) -> None:
        self._java.ask("send", self._name, topic, partition, value)

    def send_offset(self, group_id: str, topic: str, offset: int) -> None:
        self._java.ask("offsets", self._name, group_id, topic, 0, offset)

    def commit(self) -> None:
        self._java.ask("commit", self._name)

    def abort(self) -> None:
        self._java.ask("abort", self._name)

    def close(self) -> None:
        self._java.ask("close", self._name)


def read_librdkafka(servers: str, topic: str, isolation_level: str, last: str) -> list[str]:
    settings = {"group.id": "readers", "isolation.level": isolation_level}
    consumer = confluent_kafka.Consumer(librdkafka(servers, **settings))

    def poll() -> list[bytes]:
        messages = consumer.consume(500, timeout=0.05)
        assert all(message.error() is None for message in messages)
        return [message.value() or b"" for message in messages]

    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        return _until_last(poll, last)
    finally:
        consumer.close()


def read_kafka_python(servers: str, topic: str, isolation_level: str, last: str) -> list[str]:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=servers, group_id=None, isolation_level=isolation_level
    )
    where = kafka.TopicPartition(topic, 0)
    try:
        consumer.assign([where])
        consumer.seek_to_beginning(where)
        return _until_last(lambda: [r.value for r in consumer.poll(200).get(where, [])], last)
    finally:
        consumer.close()


def read_aiokafka(servers: str, topic: str, isolation_level: str, last: str) -> list[str]:
    where = aiokafka.TopicPartition(topic, 0)
    with asyncio.Runner() as runner:

        async def start() -> aiokafka.AIOKafkaConsumer:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=servers, group_id=None, isolation_level=isolation_level
            )
            await consumer.start()
            consumer.assign([where])
            await consumer.seek_to_beginning(where)
            return consumer

        def poll() -> list[bytes]:
            found = runner.run(consumer.getmany(timeout_ms=200))
            return [record.value for record in found.get(where, [])]

        consumer = runner.run(start())
        try:
            return _until_last(poll, last)
        finally:
            runner.run(consumer.stop())


def _until_last(poll: Callable[[], list[bytes]], last: str) -> list[str]:
    found: list[str] = []
    deadline = time.monotonic() + READ_TIMEOUT_S
    while last not in found:
        if time.monotonic() > deadline:
            raise ClientFailed(f"{last!r} did not come after {found[-3:]}")
        found += [value.decode() for value in poll()]
    return found


PRODUCERS: Final[Mapping[str, Callable[[str, str, int], Transactional]]] = {
    "librdkafka": Librdkafka,
    "kafka-python": KafkaPython,
    "aiokafka": Aiokafka,
}
READERS: Final[Mapping[str, Callable[[str, str, str, str], list[str]]]] = {
    "librdkafka": read_librdkafka,
    "kafka-python": read_kafka_python,
    "aiokafka": read_aiokafka,
}
"""Each reads partition 0 from the beginning until a value has come."""
