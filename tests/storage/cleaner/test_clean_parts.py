"""The parts that are about speed and memory, against plain ones."""

import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.errors import BadLength, MalformedMessage
from odradek.protocol.records import HEADER_SIZE_BYTES, Record, build_batch, iter_records
from odradek.storage.cleaner.groups import group_segments
from odradek.storage.cleaner.offset_map import ENTRY_BYTES, OffsetMap
from odradek.storage.cleaner.scan import (
    KEY_BYTES_MAX,
    digest,
    is_valueless,
    scan_ends,
    scan_keys,
    scan_records,
)
from odradek.storage.cleaner.source import CleanSegment, read_chunks
from odradek.storage.errors import CorruptLog
from tests.storage.support import WALL_MS, UnsyncedFileSystem

DATA = st.one_of(
    st.none(), st.binary(max_size=3), st.integers(60, 70).map(bytes), st.just(b"x" * 20_000)
)
DELTAS = st.one_of(st.integers(0, 2), st.sampled_from([60, 64, 8191, 8192, 3_000_000]))
TIMES = st.one_of(st.just(0), st.sampled_from([-1, 63, 64, -8192, 9000, 1 << 40, -(1 << 40)]))
ROWS = st.lists(st.tuples(DATA, DATA, TIMES, DELTAS), min_size=1, max_size=5)


def batch_of(rows: list[tuple[bytes | None, bytes | None, int, int]], gaps: bool) -> bytes:
    offset, records = 5, []
    for key, value, time, delta in rows:
        records.append(Record(offset, WALL_MS + time, key, value, [("h", b"v")] if delta else []))
        offset += 1 + (delta if gaps else 0)
    return bytes(build_batch(records, base_offset=5))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, st.booleans())
def test_every_walk_sees_what_is_there(
    rows: list[tuple[bytes | None, bytes | None, int, int]], gaps: bool
) -> None:
    data = batch_of(rows, gaps)
    plain = list(iter_records(data, size_bytes_max=1 << 24))
    where = data, HEADER_SIZE_BYTES, len(data)
    scan = scan_records(*where, 5, len(rows))
    long = [digest(k) if k and len(k) > KEY_BYTES_MAX else k for k, *_ in rows]
    assert scan.keys == long
    assert scan.offsets == [each.offset for each in plain]
    assert scan.valueless == [index for index, (_, value, *_) in enumerate(rows) if value is None]
    assert scan.has_null_keys == (None in scan.keys)
    assert scan_ends(*where, len(rows)) == scan.ends
    assert scan_keys(*where, len(rows)) == scan.keys
    starts = [HEADER_SIZE_BYTES, *scan.ends]
    found = [index for index in range(len(rows)) if is_valueless(data, starts[index])]
    assert found == scan.valueless


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(ROWS, st.data())
def test_damaged_records_are_refused_or_read(
    rows: list[tuple[bytes | None, bytes | None, int, int]], chance: st.DataObject
) -> None:
    data = bytearray(batch_of(rows, gaps=False))
    position = chance.draw(st.integers(HEADER_SIZE_BYTES, len(data) - 1))
    data[position] = chance.draw(st.integers(0, 255))
    where = bytes(data), HEADER_SIZE_BYTES, len(data)
    for walk in (
        lambda: scan_records(*where, 5, len(rows)),
        lambda: scan_keys(*where, len(rows)),
        lambda: scan_ends(*where, len(rows)),
    ):
        try:
            walk()
        except MalformedMessage:
            continue


def test_a_key_that_reaches_past_its_record_is_refused() -> None:
    data = bytearray(batch_of([(b"key", b"v", 0, 0), (b"k", b"v", 0, 0)], gaps=False))
    assert data[HEADER_SIZE_BYTES + 4] == 3 << 1
    data[HEADER_SIZE_BYTES + 4] = 20 << 1
    with pytest.raises(BadLength):
        scan_keys(bytes(data), HEADER_SIZE_BYTES, len(data), 2)


@pytest.mark.parametrize("negative", [1, 127])  # -1 and -64
def test_a_negative_offset_delta_is_refused(negative: int) -> None:
    data = bytearray(batch_of([(b"key", b"v", 0, 0)], gaps=False))
    assert data[HEADER_SIZE_BYTES + 3] == 0
    data[HEADER_SIZE_BYTES + 3] = negative
    with pytest.raises(BadLength):
        scan_records(bytes(data), HEADER_SIZE_BYTES, len(data), 5, 1)


def test_the_last_byte_of_a_long_key_is_no_length() -> None:
    data = batch_of([(b"k" * 63 + b"\1", b"v", 0, 0)], gaps=False)
    assert not is_valueless(data, HEADER_SIZE_BYTES)


@pytest.mark.parametrize("claimed_bytes", [70_000, 1 << 30])
def test_a_file_that_is_shorter_than_its_segment_is_refused(
    tmp_path: Path, claimed_bytes: int
) -> None:
    """Whether the batch fits into what the segment should have, or goes past that, too."""
    data = batch_of([(b"k", b"v" * 80_000, 0, 0)], gaps=False)
    path = tmp_path / f"{5:020d}.log"
    path.write_bytes(data[:60_000])
    files = UnsyncedFileSystem()
    with pytest.raises(CorruptLog, match="ends inside"):
        list(read_chunks(files, str(tmp_path), CleanSegment(5, claimed_bytes, 6), 0, 1 << 20))


def test_a_segment_without_indexes_takes_no_room_for_them() -> None:
    segments = [CleanSegment(0, 10, 1), CleanSegment(1, 10, 2)]
    limits = {"segment_bytes": 20, "segment_index_bytes": 0, "end_offset": 2}
    assert group_segments(segments, {}, **limits) == [segments]


@pytest.mark.parametrize("key_bytes", [16, KEY_BYTES_MAX + 1])
def test_a_full_map_takes_no_more_memory_than_it_may(key_bytes: int) -> None:
    map_bytes = ENTRY_BYTES * 5500  # where the dict has just grown
    tracemalloc.start()
    try:
        newest = OffsetMap(map_bytes, 1.0, 1 << 40)
        offset = 1 << 40
        taken = True
        while taken:
            keys = [b"%0*x" % (key_bytes, offset + index) for index in range(100)]
            taken = newest.put(keys, range(offset, offset + 100))
            offset += 100
        newest.newest_between(0, offset)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(newest) == newest.entries_max
    assert peak_bytes < map_bytes + (64 << 10)
    assert ENTRY_BYTES * newest.entries_max <= map_bytes
