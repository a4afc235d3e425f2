"""Committing and going back to what was committed, in each client's own way; kcat in a group."""

import asyncio
import subprocess
from typing import Any, Final

import aiokafka
import kafka
import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.brokers import NewTopicName, UniqueName
from tests.support.waiting import until
from tests.wire.clients import Settings, librdkafka
from tests.wire.group_members import fill
from tests.wire.servers import Server

RECORDS: Final = 20
NOTE: Final = "bis hierhin, wörtlich"


@pytest.fixture
def topic(server: Server, new_topic: NewTopicName) -> str:
    name = new_topic("committed", partitions=2)
    fill(server, name, 2, RECORDS)
    return name


@pytest.fixture
def group(unique_name: UniqueName) -> str:
    return unique_name("group")


def test_kafka_python_commits(server: Server, topic: str, group: str) -> None:
    answers: list[Any] = []
    zero, one = (kafka.TopicPartition(topic, number) for number in (0, 1))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=server.bootstrap_servers,
        group_id=group,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    try:
        consumer.assign([zero, one])
        assert consumer.committed(zero) is None
        consumer.commit({zero: kafka.OffsetAndMetadata(5, NOTE, 0)})
        assert consumer.committed(zero, metadata=True) == kafka.OffsetAndMetadata(5, NOTE, 0)
        consumer.commit_async(
            {one: kafka.OffsetAndMetadata(7, "", -1)},
            callback=lambda offsets, answer: answers.append((offsets, answer)),
        )
        until(lambda: not consumer.poll(10, update_offsets=False) or bool(answers))
        until(lambda: bool(consumer.committed(one) == 7))
        assert consumer.committed(zero) == 5
        consumer.seek(zero, consumer.committed(zero))
        consumer.pause(one)
        found = next(r for r in iter(lambda: consumer.poll(1_000), None) if r)
        assert found[zero][0].offset == 5
    finally:
        consumer.close()


def test_aiokafka_commits(server: Server, topic: str, group: str) -> None:
    async def run() -> None:
        zero = aiokafka.TopicPartition(topic, 0)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=server.bootstrap_servers,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            consumer.assign([zero])
            assert await consumer.committed(zero) is None
            assert (await consumer.getone()).offset == 0
            await consumer.commit()
            assert await consumer.committed(zero) == 1
            await consumer.commit({zero: (5, NOTE)})
            assert await consumer.committed(zero) == 5
            assert [(await consumer.getone()).offset for _ in range(3)] == [1, 2, 3]
            await consumer.seek_to_committed(zero)
            assert (await consumer.getone()).offset == 5
        finally:
            await consumer.stop()

    asyncio.run(run())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_librdkafka_commits(
    server: Server, target: str, topic: str, group: str, protocol: str
) -> None:
    """As the only member of its group: by message, by position, later, and with a note."""
    if (target, protocol) == ("kafka-3.9", "consumer"):
        pytest.skip("3.9 with ZooKeeper serves classic groups only")
    answers: list[Any] = []
    settings: Settings = {
        "group.id": group,
        "group.protocol": protocol,
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer(
        {
            **librdkafka(server.bootstrap_servers, **settings),
            "on_commit": lambda error, parts: answers.append((error, parts)),
        }
    )

    def committed() -> list[int]:
        asked = [TopicPartition(topic, number) for number in (0, 1)]
        return [found.offset for found in consumer.committed(asked, timeout=30)]

    def first_of(partition: int) -> int:
        """Read until a record of that partition comes."""
        found: list[int] = []

        def comes() -> bool:
            message = consumer.poll(0.1)
            if message is not None and message.partition() == partition:
                offset = message.offset()
                assert offset is not None
                found.append(offset)
            return bool(found)

        until(comes, timeout_s=30)
        return found[0]

    try:
        consumer.subscribe([topic])
        assert first_of(0) == 0
        assert committed() == [-1001, -1001]
        consumer.commit(offsets=[TopicPartition(topic, 0, 5, NOTE)], asynchronous=False)
        (noted,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
        assert (noted.offset, (noted.metadata or "").rstrip("\0")) == (5, NOTE)
        consumer.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=True)
        until(lambda: consumer.poll(0.05) is None or len(answers) > 1)
        until(lambda: committed() == [5, 7])
        consumer.seek(TopicPartition(topic, 0, 5))
        assert first_of(0) == 5
        consumer.commit(offsets=[TopicPartition(topic, 0, 2)], asynchronous=False)
        assert committed() == [2, 7]
    finally:
        consumer.close()
    assert all(error is None for error, _ in answers)


@pytest.mark.kcat
def test_kcat_in_a_group(server: Server, topic: str, group: str) -> None:
    """Debian's kcat joins, reads and commits when it ends; the next one goes on from there."""

    def read(count: int) -> list[str]:
        command = ["kcat", "-q", "-b", server.bootstrap_servers, "-G", group]
        command += ["-X", "auto.offset.reset=earliest", "-c", str(count), "-f", "%p:%o=%s\\n"]
        done = subprocess.run([*command, topic], capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout.decode().split()

    seen = read(15) + read(2 * RECORDS - 15)
    assert sorted(seen) == sorted(f"{p}:{n}={n}" for p in (0, 1) for n in range(RECORDS))
