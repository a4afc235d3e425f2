"""Transactions in a cluster of Apache Kafka 3.9.2 and a broker of ours, on one ZooKeeper.

Each coordinates some transactional ids and some groups, and each leads a partition of the topic. So
every marker goes to both, and each verifies what it appends with the other's coordinator.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.broker.core.partitioner import partition_of
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.running import RunningBroker, running
from tests.kafka.apache import apache_kafka

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(180)]

KAFKA, OURS = 0, 7
TIMEOUT_S: Final = 60.0
SETTINGS: Final = {
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def names(stem: str) -> Iterator[str]:
    """Two names, one for each partition of an internal topic."""
    for number in (0, 1):
        yield next(name for n in range(99) if partition_of(name := f"{stem}-{n}", 2) == number)


@asynchronous
async def test_both_coordinate_and_lead(tmp_path: Path) -> None:
    with apache_kafka("3.9.2", settings=SETTINGS, heap_mb=384) as kafka:
        ours = {"zookeeper.connect": kafka.zookeeper, "broker.id": str(OURS), **SETTINGS}  # type: ignore[attr-defined]
        async with running(tmp_path, ours) as broker:
            await asyncio.to_thread(use, kafka.bootstrap_servers)
            assert coordinates_some(broker)


def coordinates_some(broker: RunningBroker) -> bool:
    listed = [led for shard in broker.node.transactions.shards() for led in shard.ids]
    return len(listed) == 1


def use(servers: str) -> None:
    """Write and read in transactions of both coordinators."""
    there = {"bootstrap.servers": servers}
    admin = AdminClient(there)
    topic = NewTopic("t", num_partitions=2, replica_assignment=[[KAFKA], [OURS]])
    admin.create_topics([topic])["t"].result(TIMEOUT_S)
    expected: list[bytes] = []
    for transactional_id in names("x"):
        producer = Producer(there | {"transactional.id": transactional_id})
        producer.init_transactions(TIMEOUT_S)
        for number, commits in enumerate((True, False, True)):
            values = [f"{transactional_id} {number} {n}".encode() for n in range(4)]
            producer.begin_transaction()
            for n, value in enumerate(values):
                producer.produce("t", value, partition=n % 2)
            commit_offsets(there, producer, number)
            if commits:
                producer.commit_transaction(TIMEOUT_S)
                expected += values
            else:
                producer.flush(TIMEOUT_S)
                producer.abort_transaction(TIMEOUT_S)
        fence(there, transactional_id, producer)
        assert offsets_of(there) == [102, 102]
    assert sorted(read(there, len(expected))) == sorted(expected)


def commit_offsets(there: dict[str, str], producer: Producer, number: int) -> None:
    """Of a group of each coordinator."""
    for group_id in names("g"):
        consumer = Consumer(there | {"group.id": group_id})
        offsets = [TopicPartition("t", 0, 100 + number)]
        metadata = consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(offsets, metadata, TIMEOUT_S)
        consumer.close()


def offsets_of(there: dict[str, str]) -> list[int]:
    found = []
    for group_id in names("g"):
        consumer = Consumer(there | {"group.id": group_id})
        found.append(consumer.committed([TopicPartition("t", 0)], TIMEOUT_S)[0].offset)
        consumer.close()
    return found


def fence(there: dict[str, str], transactional_id: str, older: Producer) -> None:
    """What an older producer leaves open, a newer one aborts."""
    older.begin_transaction()
    older.produce("t", b"never", partition=0)
    older.produce("t", b"never", partition=1)
    older.flush(TIMEOUT_S)
    newer = Producer(there | {"transactional.id": transactional_id})
    newer.init_transactions(TIMEOUT_S)
    with pytest.raises(KafkaException) as fenced:
        older.commit_transaction(TIMEOUT_S)
    assert fenced.value.args[0].fatal()


def read(there: dict[str, str], count: int) -> list[bytes]:
    """Everything that was committed, up to the ends of both partitions."""
    ends = there | {"group.id": "reader", "enable.partition.eof": "true"}
    consumer = Consumer(ends | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition("t", partition, 0) for partition in (0, 1)])
    found: list[bytes] = []
    ended: set[int] = set()
    while len(ended) < 2:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, found
        if message.error():
            ended.add(message.partition())
        else:
            found.append(message.value())
    consumer.close()
    return found
