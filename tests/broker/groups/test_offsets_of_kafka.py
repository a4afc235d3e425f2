"""Committed offsets of transactions as Apache Kafka writes them: read, and written alike.

`tests.vectors.transactional_offsets.record` recorded the log, and what Kafka tells of it.
"""

import json
from pathlib import Path
from typing import Any, Final

from odradek.broker import runtime
from odradek.broker.coordinators.log import CoordinatorLog
from odradek.broker.core.effects import Producer
from odradek.broker.core.partition import Partition
from odradek.broker.groups.records import GROUP_RECORDS
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.records import (
    MarkerType,
    control_batch,
    iter_records,
    read_header,
)
from tests.broker.running import RunningBroker, on_broker
from tests.support.client import Client

from .told_offsets import told

VECTOR = Path(__file__).parents[2] / "vectors" / "transactional_offsets" / "kafka-3.9.2.json"
RECORDED: Final[dict[str, Any]] = json.loads(VECTOR.read_text())
BATCHES: Final = [bytes.fromhex(each) for each in RECORDED["batches"]]
GROUPS: Final = list(RECORDED["committed"]["any"])
OPEN: Final = 3  # the producer whose transaction is open at the end
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


async def empty_log(broker: RunningBroker) -> tuple[Client, Partition]:
    """The log of the groups, and a client."""
    client = await broker.client()
    await client.create_topic("orders", 7)
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    return client, broker.node.replicas.partitions["__consumer_offsets", 0]


def write(partition: Partition, data: bytes | bytearray) -> None:
    batch = bytearray(data)
    partition.append(memoryview(batch), read_header(batch), wall_ms=1)


def load_again(broker: RunningBroker, partition: Partition) -> None:
    broker.node.groups.resign_partitions([0])
    broker.node.groups.lead(partition)


@on_broker(ONE_PARTITION, both=False)
async def test_they_are_told_as_kafka_tells_them(broker: RunningBroker) -> None:
    client, partition = await empty_log(broker)
    for batch in BATCHES:
        write(partition, batch)
    load_again(broker, partition)
    assert await told(client, GROUPS) == RECORDED["after a restart"]
    end = control_batch(
        MarkerType.COMMIT, producer_id=OPEN, producer_epoch=0, timestamp=1, coordinator_epoch=0
    )
    write(partition, end)
    broker.node.groups.transaction_ended(0, OPEN, is_committed=True)
    assert await told(client, GROUPS) == RECORDED["committed"]
    load_again(broker, partition)
    assert await told(client, GROUPS) == RECORDED["committed"]


class Clock(runtime.Clock):
    """It is the time of a batch."""

    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return self.ms


@on_broker(ONE_PARTITION, both=False)
async def test_they_are_written_as_kafka_writes_them(broker: RunningBroker) -> None:
    _, partition = await empty_log(broker)
    clock = Clock()
    log = CoordinatorLog(
        partition, GROUP_RECORDS, clock, commit_timeout_ms=5_000, note_failure=lambda error: None
    )
    for batch in BATCHES:
        header = read_header(batch)
        if header.is_control or not header.is_transactional:
            write(partition, batch)
            continue
        clock.ms = header.max_timestamp
        records = [
            GROUP_RECORDS.decode(bytes(record.key or b""), bytes(record.value or b""))
            for record in iter_records(batch, size_bytes_max=len(batch))
        ]
        log.append(
            [record for record in records if record is not None],
            lambda code: None,
            producer=Producer(header.producer_id, header.producer_epoch),
        )
    end = partition.log.log_end_offset
    span = partition.log.read(0, size_bytes_max=1 << 20, offset_end=end)
    assert span is not None
    assert span.read() == b"".join(BATCHES)
    span.release()
