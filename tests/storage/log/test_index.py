"""The two indexes against a plain list, over the border between memory and file."""

from bisect import bisect_right
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odradek.storage.log.index import PENDING_BYTES_MAX, OffsetEntry, OffsetIndex, TimeIndex

from ..support import UnsyncedFileSystem

BASE_OFFSET = 1000


def offset_index(tmp_path: Path, count: int, *, step: int = 3) -> OffsetIndex:
    path = tmp_path / "i.index"
    path.write_bytes(b"")
    index = OffsetIndex(UnsyncedFileSystem(), str(path), BASE_OFFSET, 0)
    for number in range(1, count + 1):
        index.append(BASE_OFFSET + number * step, number * 100)
    return index


@pytest.mark.parametrize("count", [0, 1, 2, 767, 768, 1023, 1024, 1025, 3000])
def test_floors_are_those_of_a_list(tmp_path: Path, count: int) -> None:
    index = offset_index(tmp_path, count)
    assert index.count == count
    offsets = [BASE_OFFSET + number * 3 for number in range(1, count + 1)]
    for target in {*offsets[::97], *offsets[-3:], BASE_OFFSET, BASE_OFFSET + 3}:
        for offset in (target - 1, target, target + 1):
            found = bisect_right(offsets, offset) - 1
            expected = (offsets[found], (found + 1) * 100) if found >= 0 else None
            assert index.floor_offset(offset) == expected
            position = (offset - BASE_OFFSET) // 3 * 100 + offset % 3
            floor = min(position // 100, count)
            expected = (offsets[floor - 1], floor * 100) if floor > 0 else None
            assert index.floor_position(position) == expected


def test_floors_on_disk_are_those_of_a_list(tmp_path: Path) -> None:
    """Every entry, each looked for outside of the block that was read before."""
    index = offset_index(tmp_path, 2000)
    index.write_pending()
    for low in range(1, 1001):
        for number in (low, low + 1000):
            offset = BASE_OFFSET + number * 3
            assert index.floor_offset(offset) == (offset, number * 100)


def test_an_entry_says_where_its_batch_may_begin(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 2)
    assert index.base_offsets(OffsetEntry(BASE_OFFSET + 3, 100)) == (BASE_OFFSET, BASE_OFFSET + 3)
    assert index.base_offsets(OffsetEntry(BASE_OFFSET + 6, 200)) == (
        BASE_OFFSET + 4,
        BASE_OFFSET + 6,
    )


def test_what_is_pending_stays_bounded(tmp_path: Path) -> None:
    index = offset_index(tmp_path, 2000)
    on_disk = (tmp_path / "i.index").stat().st_size
    assert 0 < index.size_bytes - on_disk < PENDING_BYTES_MAX
    index.write_pending()
    assert (tmp_path / "i.index").read_bytes() == index.read_all()
    assert (tmp_path / "i.index").stat().st_size == 16000


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    count=st.integers(0, 2100),
    flush=st.booleans(),
    position_end=st.integers(0, 220_000),
)
@example(count=10, flush=True, position_end=500)
@example(count=10, flush=True, position_end=499)
def test_truncation_keeps_what_begins_below(
    tmp_path_factory: pytest.TempPathFactory, count: int, flush: bool, position_end: int
) -> None:
    index = offset_index(tmp_path_factory.mktemp("index"), count)
    if flush:
        index.write_pending()
    index.truncate(position_end)
    kept = min(count, max(0, (position_end - 1) // 100))
    assert index.count == kept
    last = index.last()
    assert last == ((BASE_OFFSET + kept * 3, kept * 100) if kept else None)
    index.append(BASE_OFFSET + 9000, 300_000)
    index.write_pending()
    assert index.last() == (BASE_OFFSET + 9000, 300_000)
    assert index.count == kept + 1


def test_a_time_index_only_rises(tmp_path: Path) -> None:
    path = tmp_path / "t.timeindex"
    path.write_bytes(b"")
    index = TimeIndex(UnsyncedFileSystem(), str(path), BASE_OFFSET, 0)
    assert not index.append(-1, BASE_OFFSET)
    assert index.append(50, BASE_OFFSET + 1)
    assert not index.append(50, BASE_OFFSET + 2)
    assert not index.append(49, BASE_OFFSET + 3)
    assert index.append(60, BASE_OFFSET + 4)
    assert index.floor_timestamp(49) is None
    assert index.floor_timestamp(59) == (50, BASE_OFFSET + 1)
    assert index.floor_timestamp(99) == (60, BASE_OFFSET + 4)
    index.truncate(BASE_OFFSET + 4)
    assert index.last() == (50, BASE_OFFSET + 1)
    index.close()
    assert path.read_bytes().hex() == "0000000000000032" + "00000001"
