"""A follower writes what its leader has, as it is."""

from pathlib import Path

import pytest

from odradek.protocol.errors import BadChecksum
from odradek.storage.log.checkpoint import OFFSET_MAX
from odradek.storage.log.following import UnexpectedEpoch, UnexpectedOffset
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from tests.broker.batches import altered, with_records
from tests.support.messages import batch_of

from ..support import new_log


def fetched(*base_offsets: int, epoch: int = 3) -> memoryview:
    batches = [
        altered(batch_of(b"a", b"b"), base_offset=offset, partition_leader_epoch=epoch)
        for offset in base_offsets
    ]
    return memoryview(b"".join(batches))


def without_records(offset: int) -> bytes:
    """All that compaction left of a batch: its header."""
    return bytes(with_records(altered(batch_of(b"a"), base_offset=offset), b""))


def content(log: Log) -> bytes:
    file = log.segments.active.file
    return file.pread(file.size_bytes, 0)


def test_several_batches_as_they_are(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    batches = memoryview(bytes(fetched(0, 2)) + bytes(fetched(4, 10, epoch=5)))
    assert log.append_as_follower(batches, wall_ms=0) == (0, 12, len(batches))
    assert content(log) == batches
    assert log.epochs.entries() == [(3, 0), (5, 4)]
    assert log.append_as_follower(memoryview(b""), wall_ms=0) == (12, 12, 0)


def test_a_torn_last_batch_is_left(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    batches = fetched(0, 2)
    half = len(batches) // 2
    for cut in (half + 1, half + 30, len(batches) - 1):
        log.truncate(0)
        assert log.append_as_follower(batches[:cut], wall_ms=0) == (0, 2, half)
    assert log.append_as_follower(batches[: half - 1], wall_ms=0).size_bytes == 0


def test_no_more_than_asked_for(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    batches = fetched(0, 2, 4, 6)
    size_bytes = len(batches) // 4
    first = log.append_as_follower(batches, wall_ms=0, batches_max=2)
    assert first == (0, 4, 2 * size_bytes)
    second = log.append_as_follower(batches[first.size_bytes :], wall_ms=0, bytes_max=1)
    assert second == (4, 6, size_bytes), "the first one is larger"


def test_nothing_of_a_later_epoch_than_the_leaders(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    batches = memoryview(bytes(fetched(0)) + bytes(fetched(2, epoch=4)) + bytes(fetched(4)))
    assert log.append_as_follower(batches, wall_ms=0, epoch_max=3).offset_end == 2


def test_offsets_that_do_not_rise(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with pytest.raises(UnexpectedOffset) as error:
        log.append_as_follower(fetched(0, 1), wall_ms=0)
    assert (error.value.base_offset, error.value.last_offset) == (1, 2)
    assert log.log_end_offset == 2


def test_a_wrong_checksum(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    batches = bytearray(fetched(0, 2))
    batches[-1] ^= 1
    with pytest.raises(BadChecksum):
        log.append_as_follower(memoryview(batches), wall_ms=0)
    assert log.log_end_offset == 2


def test_an_epoch_without_records_goes_with_a_cut_at_the_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.append_as_follower(fetched(0), wall_ms=0)
    log.assign_leader_epoch(7)
    generation = log.generation
    assert log.truncate(2) == 2
    assert log.epochs.entries() == [(3, 0)]
    assert log.generation == generation, "nothing was cut"


@pytest.mark.parametrize(
    ("batches", "gaps_before", "compacts"),
    [
        (fetched(0, 6, 4), 100, True),  # the next one goes back: a bit is flipped in the 6
        (fetched(0, 5), 4, False),
        (fetched(0, 5), 6, False),
        (fetched(0, 1 << 40), 100, False),
        (fetched(0, (1 << 63) - 2), 1 << 63, True),
        (fetched(0, -5), 100, True),
        (memoryview(bytes(fetched(0, 6)) + without_records(4)), 100, True),
    ],
)
def test_offsets_left_out_where_none_can_be(
    tmp_path: Path, batches: memoryview, gaps_before: int, compacts: bool
) -> None:
    log = new_log(tmp_path, LogConfig(compacts=compacts))
    with pytest.raises(UnexpectedOffset):
        log.append_as_follower(batches, wall_ms=0, gaps_before=gaps_before)
    assert log.log_end_offset == 2


@pytest.mark.parametrize(
    ("batches", "gaps_before", "compacts"),
    [
        (fetched(0, 6, 8), 4, False),  # the next one says so
        (fetched(0, 6), 8, False),
        (fetched(0, 6), 4, True),
    ],
)
def test_offsets_left_out_by_compaction(
    tmp_path: Path, batches: memoryview, gaps_before: int, compacts: bool
) -> None:
    log = new_log(tmp_path, LogConfig(compacts=compacts))
    log.append_as_follower(batches, wall_ms=0, gaps_before=gaps_before)
    assert content(log) == batches


@pytest.mark.parametrize(("flipped", "kept"), [(2, 0), (7, 2)])
def test_an_epoch_that_goes_back(tmp_path: Path, flipped: int, kept: int) -> None:
    """Of the second batch of three, which is not taken, whichever way it is wrong."""
    log = new_log(tmp_path)
    batches = bytes(fetched(0)) + bytes(fetched(2, epoch=flipped)) + bytes(fetched(4))
    with pytest.raises(UnexpectedEpoch):
        log.append_as_follower(memoryview(batches), wall_ms=0)
    assert log.log_end_offset == kept
    assert all(epoch == 3 for epoch, _ in log.epochs.entries())


def test_no_offset_is_beyond_what_a_segment_can_begin_with(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.restart_at(OFFSET_MAX)
    with pytest.raises(UnexpectedOffset):
        log.append_as_follower(fetched(OFFSET_MAX, OFFSET_MAX + 2), wall_ms=0)
    assert log.log_end_offset == OFFSET_MAX + 2
