"""What a Fetch reads, within its limits."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odradek.broker.core.fetch_reads import Read, read_all, release_all
from odradek.broker.core.fetch_session import PartitionFetch
from odradek.broker.core.partition import Partition
from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.errors import CorruptLog, LogDirFailed
from odradek.storage.log.log import Log
from tests.broker.core.test_partition import STATE, append, partition_of
from tests.support.messages import batch_of

SIZE_BYTES = len(batch_of(b"a"))
MANY = 1 << 20


@pytest.fixture
def partitions(tmp_path: Path) -> dict[int, Partition]:
    """Partition n has n batches of one record."""
    made = {number: partition_of(tmp_path / str(number)) for number in range(4)}
    for number, partition in made.items():
        for _ in range(number):
            append(partition, b"a")
    return made


def fetch_of(partition: int, offset: int = 0, max_bytes: int = MANY, **more: int) -> PartitionFetch:
    return PartitionFetch(("t", partition), offset, max_bytes, **more)


def read(
    partitions: dict[int, Partition], *fetches: PartitionFetch, size_bytes_max: int = MANY
) -> list[Read]:
    def find(fetch: PartitionFetch) -> Partition:
        if fetch.partition not in partitions:
            raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)
        return partitions[fetch.partition]

    reads = read_all(list(fetches), find, size_bytes_max)
    release_all(reads)
    assert not any(p.log.segments.active.file.referenced for p in partitions.values())
    return reads


def batches(reads: list[Read]) -> list[int]:
    return [read.size_bytes // SIZE_BYTES for read in reads]


def test_the_limits(partitions: dict[int, Partition]) -> None:
    every = [fetch_of(number) for number in range(4)]
    assert batches(read(partitions, *every)) == [0, 1, 2, 3]
    for size, expected in (
        (4 * SIZE_BYTES, [0, 1, 2, 1]),
        (2 * SIZE_BYTES, [0, 1, 1, 0]),
        (SIZE_BYTES, [0, 1, 0, 0]),
        (1, [0, 1, 0, 0]),
        (0, [0, 1, 0, 0]),
        (-7, [0, 1, 0, 0]),
    ):
        assert batches(read(partitions, *every, size_bytes_max=size)) == expected
    small = [fetch_of(number, max_bytes=1) for number in range(4)]
    assert batches(read(partitions, *small)) == [0, 1, 0, 0], "only the first may be larger"
    assert batches(read(partitions, fetch_of(3, 1, SIZE_BYTES), fetch_of(2))) == [1, 2]


def test_what_is_told_beside_the_records(partitions: dict[int, Partition]) -> None:
    partitions[3].log.advance_log_start(1)
    (found,) = read(partitions, fetch_of(3, 3))
    assert (found.error, found.high_watermark, found.log_start_offset, found.span) == (
        ErrorCode.NONE,
        3,
        1,
        None,
    )


def test_errors(partitions: dict[int, Partition]) -> None:
    partitions[0].become(STATE._replace(leader=9, leader_epoch=6), 0)
    partitions[3].log.advance_log_start(1)
    reads = read(
        partitions,
        fetch_of(7),
        fetch_of(0),
        fetch_of(1, 2),
        fetch_of(3, 0),
        fetch_of(2, current_leader_epoch=4),
        fetch_of(2),
    )
    assert [found.error for found in reads] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.OFFSET_OUT_OF_RANGE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NONE,
    ]
    assert all(found.high_watermark == -1 for found in reads[:5])
    assert batches(reads)[5] == 2


@pytest.mark.parametrize("error", [LogDirFailed("broken"), CorruptLog("broken")])
def test_a_failing_disk_is_handed_on(
    partitions: dict[int, Partition], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object, **more: object) -> Iterator[None]:
        raise error

    monkeypatch.setattr(Log, "read", fail)
    (found,) = read(partitions, fetch_of(1))
    assert (found.error, found.failure) == (ErrorCode.KAFKA_STORAGE_ERROR, error)


def test_a_fetcher_with_another_history(partitions: dict[int, Partition]) -> None:
    partition = partitions[2]  # epoch 5 holds offsets 0 and 1
    partition.become(STATE._replace(leader_epoch=8), 0)
    append(partition, b"a")
    for epoch, offset, expected in (
        (5, 0, None),  # at the start of the log
        (5, 2, None),
        (5, 3, (5, 2)),
        (7, 2, (5, 2)),
        (8, 3, None),
        (-1, 3, None),
    ):
        (found,) = read(partitions, fetch_of(2, offset, last_fetched_epoch=epoch))
        assert (found.error, found.diverging_epoch) == (ErrorCode.NONE, expected)
        assert expected is None or found.span is None
    (found,) = read(partitions, fetch_of(2, 2, last_fetched_epoch=9))
    assert found.error == ErrorCode.OFFSET_OUT_OF_RANGE
