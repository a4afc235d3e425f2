"""Reading `__consumer_offsets` back: in order, all of it, and past what cannot be read."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.coordinators.loading import CoordinatorLoader
from odradek.broker.core.partition import Partition
from odradek.broker.groups.records import GROUP_RECORDS
from odradek.protocol.group_records import GroupRecord, classic, encode_record
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    read_header,
)
from odradek.storage.log.damage import DamagedRange
from odradek.storage.log.segment import Segment
from tests.broker.running import RunningBroker, on_broker

SMALL_BUFFER_BYTES = 200
LENGTH_POSITION = 8
"""Of the batch length, in a batch header."""
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}
ONE_PARTITION = {"offsets.topic.num.partitions": "1"}


async def partition_of(broker: RunningBroker) -> Partition:
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    return broker.node.replicas.partitions["__consumer_offsets", 0]


def offset(group: str, offset: int | None) -> GroupRecord:
    key = classic.OffsetCommitKey(group=group, topic="t", partition=0)
    return GroupRecord(key, None if offset is None else classic.OffsetCommitValue(offset=offset))


def batch(*records: GroupRecord, **more: int | bool) -> bytearray:
    kept = [Record(i, 1, *encode_record(record)) for i, record in enumerate(records)]
    return build_batch(kept, **more)  # type: ignore[arg-type]


def write(partition: Partition, data: bytearray) -> None:
    partition.append(memoryview(data), read_header(data), wall_ms=1)


def overwrite_length(segment: Segment, position: int, length: int) -> None:
    """Damage the header of the batch that begins at `position`."""
    with Path(segment.file.path).open("r+b") as file:
        file.seek(position + LENGTH_POSITION)
        file.write(length.to_bytes(4, "big", signed=True))


class Told:
    """What a loader tells of transactions, among the records of none."""

    def __init__(self) -> None:
        self.told: list[object] = []

    def apply_in_transaction(self, record: GroupRecord, producer_id: int) -> None:
        self.told.append((producer_id, record))

    def end_transaction(self, producer_id: int, *, is_committed: bool) -> None:
        self.told.append((producer_id, is_committed))


def loader_of(
    partition: Partition, applied: list[Any], transactions: Told | None = None
) -> CoordinatorLoader[GroupRecord]:
    return CoordinatorLoader(
        partition,
        GROUP_RECORDS,
        applied.append,
        transactions=transactions,
        is_over=lambda: False,
        buffer_bytes=SMALL_BUFFER_BYTES,
        decompressed_bytes_max=1 << 20,
    )


async def loaded(broker: RunningBroker, partition: Partition) -> tuple[list[GroupRecord], int]:
    """What is applied, and how many were skipped."""
    applied: list[GroupRecord] = []
    loader = loader_of(partition, applied)
    await loader.load(broker.node.runtime.offload)
    return applied, loader.skipped_count


@on_broker(ONE_PARTITION, both=False)
async def test_all_batches_in_their_order(broker: RunningBroker) -> None:
    partition = await partition_of(broker)
    written = [offset(f"g{i % 3}", i) for i in range(100)]
    for i in range(0, 100, 4):
        write(partition, batch(*written[i : i + 4], codec=i % 5))
    write(partition, batch(offset("g0", None)))
    assert await loaded(broker, partition) == ([*written, offset("g0", None)], 0)


@on_broker(ONE_PARTITION, both=False)
async def test_records_below_the_log_start_are_gone(broker: RunningBroker) -> None:
    partition = await partition_of(broker)
    write(partition, batch(*(offset("g", i) for i in range(5))))
    partition.log.advance_log_start(3)
    assert await loaded(broker, partition) == ([offset("g", 3), offset("g", 4)], 0)


@on_broker(ONE_PARTITION, both=False)
async def test_the_log_start_moves_meanwhile(broker: RunningBroker) -> None:
    """As where cleanup.policy is compact,delete."""
    partition = await partition_of(broker)
    for i in range(40):
        write(partition, batch(offset("g", i)))
    offload = broker.node.runtime.offload

    async def offload_slowly(function: Callable[..., Any], *arguments: Any) -> Any:
        data = await offload(function, *arguments)
        partition.log.advance_log_start(30)
        return data

    applied: list[GroupRecord] = []
    loader = loader_of(partition, applied)
    await loader.load(offload_slowly)  # type: ignore[arg-type]
    assert applied[0] == offset("g", 0)
    assert applied[-10:] == [offset("g", i) for i in range(30, 40)]
    assert len(applied) < 40


@on_broker(ONE_PARTITION, both=False)
async def test_transactions_and_their_ends_are_told_in_log_order(broker: RunningBroker) -> None:
    partition = await partition_of(broker)
    for producer_id in (7, 8, 9):
        given = {**PRODUCER, "producer_id": producer_id, "is_transactional": True}
        write(partition, batch(offset(f"of {producer_id}", 1), **given))
    write(partition, batch(offset("g", 2)))
    for producer_id, outcome in ((8, MarkerType.ABORT), (7, MarkerType.COMMIT)):
        marker = control_batch(
            outcome, producer_id=producer_id, producer_epoch=0, timestamp=1, coordinator_epoch=0
        )
        write(partition, marker)
    open_ones = [offset(f"of {producer_id}", 1) for producer_id in (7, 8, 9)]
    told = Told()
    await loader_of(partition, told.told, told).load(broker.node.runtime.offload)
    ids = (7, 8, 9)
    expected = [*zip(ids, open_ones, strict=True), offset("g", 2), (8, False), (7, True)]
    assert told.told == expected
    # In a topic that has no transactions the flag means nothing.
    assert await loaded(broker, partition) == ([*open_ones, offset("g", 2)], 0)


@on_broker(ONE_PARTITION, both=False)
async def test_what_cannot_be_read_is_left_out(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    partition = await partition_of(broker)
    key, value = encode_record(offset("g", 1))
    for bad in (
        Record(0, 1, None, value),  # no key
        Record(0, 1, b"\0", value),  # no record type
        Record(0, 1, key, b"\0\3\1"),  # a value that ends too early
        Record(0, 1, key, b"\x7f\x7f"),  # a version of the future
        Record(0, 1, b"\x7f\x7fnews", b""),  # a type of the future: that is no fault
    ):
        write(partition, build_batch([bad]))
    broken = batch(offset("g", 2))
    broken[-1] ^= 0xFF  # the checksum is wrong
    write(partition, broken)
    write(partition, batch(offset("g", 3)))
    caplog.set_level(logging.ERROR)
    assert await loaded(broker, partition) == ([offset("g", 3)], 5)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    places = [record.args[2] for record in errors if isinstance(record.args, tuple)]
    assert places == [0, 1, 2, 3, 5]


@pytest.mark.parametrize("length", [-1, 1 << 20])
@on_broker(ONE_PARTITION, both=False)
async def test_loading_goes_on_after_a_damaged_header(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    """With the next segment; what follows in the damaged one can't be found."""
    partition = await partition_of(broker)
    log = partition.log
    for i in range(3):
        write(partition, batch(offset("g", i)))
    log.roll(3, wall_ms=1)
    write(partition, batch(offset("g", 3)))
    overwrite_length(log.segments[0], log.segments[0].size_bytes // 3, length)
    caplog.set_level(logging.ERROR)
    assert await loaded(broker, partition) == ([offset("g", 0), offset("g", 3)], 1)
    (error,) = [message for message in caplog.messages if message.startswith("records skipped")]
    assert "topic=__consumer_offsets partition=0 offsets=1..2 " in error


@on_broker(ONE_PARTITION, both=False)
async def test_loading_goes_on_after_damage_that_is_known(broker: RunningBroker) -> None:
    partition = await partition_of(broker)
    log = partition.log
    for i in range(3):
        write(partition, batch(offset("g", i)))
    segment = log.segments[0]
    size_bytes = segment.size_bytes // 3
    segment.note_damage((DamagedRange(size_bytes, 2 * size_bytes, 1, 2, "a flipped bit"),))
    assert await loaded(broker, partition) == ([offset("g", 0), offset("g", 2)], 1)
