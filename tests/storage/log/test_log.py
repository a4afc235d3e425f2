"""Append, read, roll, look up, truncate and delete one log."""

import os
from functools import partial
from pathlib import Path

import pytest

from odradek.protocol.records import Record, build_batch, iter_batches, read_header
from odradek.storage.errors import BatchTooLarge, CorruptLog, OffsetOutOfRange
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.recovery.load import create_log

from ..support import (
    SMALL,
    WALL_MS,
    append,
    append_values,
    batch_of,
    clean_hints,
    contents,
    new_log,
    read_bytes,
    reload,
)


def fill(log: Log, count: int) -> None:
    for number in range(count):
        append_values(log, b"%d" % number)


def test_a_batch_comes_back_with_its_offset_and_epoch(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"a", b"b")
    batch = batch_of([b"c"])
    assert append(log, batch, leader_epoch=7) == 2
    data = read_bytes(log, 2)
    assert data == bytes(batch)
    header = read_header(data)
    assert (header.base_offset, header.partition_leader_epoch) == (2, 7)
    assert log.log_end_offset == 3


def test_log_append_time_is_set_by_the_log(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(message_timestamp_log_append=True))
    append(log, batch_of([b"a"], timestamp=5), wall_ms=WALL_MS)
    header = read_header(read_bytes(log, 0))
    assert header.is_log_append_time
    assert header.max_timestamp == WALL_MS
    assert log.offset_for_timestamp(6) == (WALL_MS, 0, 0)


def test_a_read_returns_the_whole_batch_around_an_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"a", b"b", b"c")
    append_values(log, b"d")
    assert read_header(read_bytes(log, 1)).base_offset == 0
    assert read_header(read_bytes(log, 3)).base_offset == 3


def test_reads_are_bounded_by_bytes_but_the_first_batch_comes(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=100))
    for number in range(50):
        append_values(log, b"%02d" % number)
    size_bytes = log.size_bytes // 50
    for offset in (0, 17, 49):
        for count in (1, 2, 5):
            for more in (0, 1, size_bytes - 1):
                data = read_bytes(log, offset, size_bytes_max=count * size_bytes + more)
                assert len(data) == min(count, 50 - offset) * size_bytes
                assert read_header(data).base_offset == offset
        assert len(read_bytes(log, offset, size_bytes_max=0)) == size_bytes
        limit = size_bytes - 1
        assert log.read(offset, size_bytes_max=limit, offset_end=50, at_least_one=False) is None


def test_reads_end_before_the_end_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 40)
    for end in range(41):
        span = log.read(0, size_bytes_max=1 << 20, offset_end=end)
        if end == 0:
            assert span is None
            continue
        assert span is not None
        last = [header.last_offset for _, header in iter_batches(span.read())][-1]
        assert last < end
        segment_end = log.segments.next_base_offset(log.segments[0])
        assert last == min(end, segment_end or end) - 1
        span.release()


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    log.high_watermark = 3
    assert log.read(3, size_bytes_max=10, offset_end=3) is None
    with pytest.raises(OffsetOutOfRange):
        log.read(4, size_bytes_max=10, offset_end=3)
    log.advance_log_start(2)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, size_bytes_max=10, offset_end=3)


def test_records_above_the_high_watermark_are_not_deleted(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 3)
    log.high_watermark = 2
    with pytest.raises(OffsetOutOfRange):
        log.advance_log_start(3)
    assert log.log_start_offset == 0
    log.advance_log_start(2)
    assert log.log_start_offset == 2


def test_a_segment_is_rolled_by_size(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 100)
    assert len(log.segments) > 5
    assert all(segment.size_bytes <= SMALL.segment_bytes for segment in log.segments)
    assert [value for _, value in contents(log)] == [b"%d" % number for number in range(100)]


def test_a_segment_is_rolled_by_the_age_of_its_first_record(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, batch_of([b"a"], timestamp=WALL_MS))
    append(log, batch_of([b"b"], timestamp=WALL_MS + 1000))
    assert len(log.segments) == 1
    append(log, batch_of([b"c"], timestamp=WALL_MS + 1001))
    assert len(log.segments) == 2
    log.close()
    again = reload(log, clean_hints(log))
    append(again, batch_of([b"d"], timestamp=WALL_MS + 2002))
    assert len(again.segments) == 3


def test_without_timestamps_a_segment_is_rolled_by_the_clock(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_ms=1000))
    append(log, batch_of([b"a"], timestamp=-1), wall_ms=WALL_MS)
    append(log, batch_of([b"b"], timestamp=-1), wall_ms=WALL_MS + 1000)
    assert len(log.segments) == 1
    append(log, batch_of([b"c"], timestamp=-1), wall_ms=WALL_MS + 1001)
    assert len(log.segments) == 2


def test_a_segment_is_rolled_when_its_index_is_full(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=0, segment_index_bytes=80))
    fill(log, 100)
    assert len(log.segments) >= 9
    for segment in log.segments:
        assert segment.offset_index.size_bytes <= 80


def test_an_append_larger_than_a_segment_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    with pytest.raises(BatchTooLarge):
        append_values(log, bytes(SMALL.segment_bytes))
    assert log.log_end_offset == 0


def test_timestamps_are_found_by_record(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for base in range(0, 300, 3):
        records = [Record(index, 1000 + 10 * (base + index), None, b"v") for index in range(3)]
        append(log, memoryview(build_batch(records, codec=base % 5)), leader_epoch=2)
    assert len(log.segments) > 3
    for offset in range(300):
        timestamp = 1000 + 10 * offset
        assert log.offset_for_timestamp(timestamp) == (timestamp, offset, 2)
        assert log.offset_for_timestamp(timestamp - 9) == (timestamp, offset, 2)
    assert log.offset_for_timestamp(1000 + 10 * 299 + 1) is None
    log.high_watermark = 300
    log.advance_log_start(100)
    assert log.offset_for_timestamp(0) == (2000, 100, 2)


def test_the_greatest_timestamp_is_that_of_its_first_record(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    assert log.max_timestamp_offset() is None
    append(log, batch_of([b"none"], timestamp=-1))
    assert log.max_timestamp_offset() is None
    timestamps = [5, 9, 9, 3]
    records = [Record(index, stamp, None, b"v") for index, stamp in enumerate(timestamps)]
    append(log, memoryview(build_batch(records)))
    for _ in range(50):
        append(log, batch_of([b"older"], timestamp=4))
    assert log.max_timestamp_offset() == (9, 2, 0)
    log.close()
    assert reload(log, clean_hints(log)).max_timestamp_offset() == (9, 2, 0)
    assert reload(log).max_timestamp_offset() == (9, 2, 0)


def test_truncation_removes_whole_batches(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(30):
        append_values(log, b"%d" % number, b"x", b"y", leader_epoch=number // 10)
    log.high_watermark = 90
    assert log.truncate(200) == 90
    assert log.truncate(47) == 45
    assert (log.log_end_offset, log.high_watermark) == (45, 45)
    assert log.epochs.entries() == [(0, 0), (1, 30)]
    append_values(log, b"new", leader_epoch=5)
    assert [offset for offset, _ in contents(log)] == list(range(46))
    assert contents(reload(log))[-1] == (45, b"new")
    assert log.truncate(0) == 0
    assert contents(log) == []
    assert log.size_bytes == 0


def test_a_place_remembered_before_a_truncation_is_forgotten(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig())
    fill(log, 10)
    read_bytes(log, 0)  # remembers where offset 10 will begin
    log.truncate(5)
    for _ in range(5):
        append_values(log, b"much longer than before")
    append_values(log, b"10")
    assert read_header(read_bytes(log, 10)).base_offset == 10


def test_a_truncated_log_keeps_its_time_index_right(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=100))
    for number in range(40):
        append(log, batch_of([b"v"], timestamp=1000 + number))
    log.truncate(25)
    assert log.max_timestamp_offset() == (1024, 24, 0)
    append(log, batch_of([b"v"], timestamp=2000))
    assert log.offset_for_timestamp(1025) == (2000, 25, 0)
    assert log.offset_for_timestamp(1024) == (1024, 24, 0)


def test_a_log_restarts_at_any_offset(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    log.restart_at(1000)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (1000, 1000, 1000)
    assert append_values(log, b"a") == 1000
    assert contents(reload(log)) == [(1000, b"a")]
    log.restart_at(1000)
    assert append_values(log, b"b") == 1000
    assert contents(log) == [(1000, b"b")]


def test_a_follower_keeps_offsets_and_bytes(tmp_path: Path) -> None:
    leader, follower = new_log(tmp_path / "1"), new_log(tmp_path / "2")
    for number in range(60):
        append_values(leader, b"%d" % number, b"x", leader_epoch=number // 25)
    while data := read_bytes(leader, follower.log_end_offset, size_bytes_max=300):
        torn = memoryview(bytearray(data + data[:20]))
        appended = follower.append_as_follower(torn, wall_ms=WALL_MS)
        assert appended.offset_end == follower.log_end_offset
    assert contents(follower) == contents(leader)
    assert follower.epochs.entries() == leader.epochs.entries()
    with pytest.raises(CorruptLog):
        follower.append_as_follower(memoryview(bytearray(read_bytes(leader, 0))), wall_ms=WALL_MS)


def test_a_follower_with_a_gap_wider_than_an_index_can_say_rolls(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for offset in (5 << 31, 9 << 31):
        batch = build_batch([Record(offset, 1, None, b"v")])
        log.append_as_follower(memoryview(batch), wall_ms=WALL_MS)
    assert [offset for offset, _ in contents(log)] == [5 << 31, 9 << 31]
    assert [segment.base_offset for segment in log.segments] == [5 << 31, 9 << 31]


def test_spans_keep_their_file_over_deletion(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"kept")
    span = log.read(0, size_bytes_max=1000, offset_end=1)
    assert span is not None
    plan = log.delete(bytes(15) + b"\x01")
    assert os.listdir(tmp_path) == ["t-0." + "0" * 31 + "1-delete"]
    plan.run()
    assert os.listdir(tmp_path) == []
    assert b"kept" in span.read()
    span.release()
    span.release()


def test_truncation_drops_the_spans_beyond_the_new_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    fill(log, 30)
    dropped: list[int] = []
    spans = []
    for offset in (0, 5, 6, 20):
        span = log.read(offset, size_bytes_max=1, offset_end=30)
        assert span is not None
        span.on_drop = partial(dropped.append, offset)
        spans.append(span)
    log.truncate(6)
    assert sorted(dropped) == [6, 20]
    assert [span.dropped for span in spans] == [False, False, True, True]
    for span in spans:
        span.release()


def test_a_long_topic_name_is_cut_in_the_name_of_a_deleted_directory(tmp_path: Path) -> None:
    topic = "x" * 249
    log = create_log(
        RealFileSystem(), f"{tmp_path}/{topic}-10", topic, 10, topic_id=None, config=SMALL
    )
    name = os.path.basename(log.delete(bytes(16)).directory)
    assert len(name) == 255
    assert name.endswith("x-10." + "0" * 32 + "-delete")


def test_a_reader_passes_over_empty_segments(tmp_path: Path) -> None:
    """As compaction leaves them, or a power cut that took an unsynced one."""
    log = new_log(tmp_path, LogConfig(segment_bytes=200))
    for value in range(12):
        append_values(log, bytes([value]) * 40)
    emptied = list(log.segments)[1:3]
    gone = range(emptied[0].base_offset, emptied[1].base_offset + 1)
    for segment in emptied:
        segment.truncate(0, segment.base_offset)
    assert len(log.segments) == 12
    assert [offset for offset, _ in contents(log)] == [n for n in range(12) if n not in gone]


def test_a_start_inside_a_batch_that_is_cut_goes_back_with_the_end(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"0", b"1", b"2")
    append_values(log, b"3", b"4", b"5")
    log.high_watermark = 6
    log.advance_log_start(4)
    assert log.truncate(4) == 3
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (3, 3, 3)
    assert append_values(log, b"new") == 3
    assert contents(log) == [(3, b"new")]
    log.high_watermark = 4
    log.advance_log_start(4)
    assert log.truncate(2) == 0  # whole batches only
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    log.abandon()


def test_a_batch_may_fill_a_segment(tmp_path: Path) -> None:
    batch = batch_of([b"a"])
    log = new_log(tmp_path, LogConfig(segment_bytes=len(batch)))
    assert append(log, batch) == 0
    with pytest.raises(BatchTooLarge):
        append(log, batch_of([b"aa"]))
