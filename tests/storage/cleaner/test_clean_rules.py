"""What stays and what goes, rule by rule."""

from pathlib import Path

import pytest

from odradek.protocol.records import Codec, MarkerType, Record, build_batch, check_crc, read_header
from odradek.storage.cleaner.offset_map import ENTRY_BYTES
from odradek.storage.cleaner.scan import digest
from tests.storage.cleaner.cleanable import (
    RETENTION_MS,
    Cleanable,
    cleaned,
    keyed,
    keys_of,
    marker,
    record,
)
from tests.storage.support import WALL_MS

LATER_MS = WALL_MS + RETENTION_MS


def test_the_newest_record_of_each_key_stays_where_it_was(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a", "b", "c"), keyed(3, "a"))
    log.segment(keyed(4, "b", "d"))
    result = log.clean_and_swap()
    assert log.offsets() == [2, 3, 4, 5]
    assert result["end_offset"] == 6
    assert result["segments"] == [
        {"replaces": [0, 4], "base_offset": 0, "size_bytes": log.file(0, "log").stat().st_size}
    ]
    assert result["statistics"]["records_read"] == 6
    assert result["statistics"]["records_written"] == 4


def test_a_batch_that_loses_nothing_is_copied_as_it_is(tmp_path: Path) -> None:
    kept = build_batch([record(0, b"a"), record(1, b"b")], codec=Codec.LZ4, leader_epoch=3)
    log = cleaned(tmp_path, kept, keyed(2, "c", "c"))
    assert log.batches()[0][1] == kept


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_that_loses_records_keeps_all_else(tmp_path: Path, codec: Codec) -> None:
    records = [
        Record(10, WALL_MS + 5, b"a", b"1" * 300),
        Record(11, WALL_MS + 9, b"b", b"2" * 300, [("h", b"x"), ("n", None)]),
        Record(14, WALL_MS - 70_000, b"c", b"3" * 300),
        Record(15, WALL_MS + 90_000, b"d", b"4"),
    ]
    batch = build_batch(
        records,
        codec=codec,
        base_offset=9,
        last_offset=17,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=2,
        base_sequence=100,
    )
    log = cleaned(tmp_path, batch, keyed(18, "a", "d"))
    header, data = log.batches()[0]
    before = read_header(batch)
    check_crc(data, header)
    assert header == before._replace(
        batch_length=header.batch_length,
        crc=header.crc,
        base_timestamp=WALL_MS + 9,
        max_timestamp=WALL_MS + 9,
        record_count=2,
    )
    rebuilt = build_batch(
        records[1:3],
        codec=codec,
        base_offset=9,
        last_offset=17,
        leader_epoch=7,
        producer_id=5,
        producer_epoch=2,
        base_sequence=100,
    )
    assert data == rebuilt


def test_append_time_stays(tmp_path: Path) -> None:
    records = [record(0, b"a"), record(1, b"b", timestamp=WALL_MS + 400)]
    batch = build_batch(records, append_time_ms=WALL_MS + 1234)
    log = cleaned(tmp_path, batch, keyed(2, "a"))
    header = log.batches()[0][0]
    assert header.is_log_append_time
    assert (header.base_timestamp, header.max_timestamp) == (WALL_MS + 1234,) * 2
    assert log.records()[0] == (1, b"b", b"v", WALL_MS + 1234)


def test_records_without_a_key_go(tmp_path: Path) -> None:
    batch = build_batch([record(0, None), record(1, b""), record(2, b"a")])
    log = Cleanable(tmp_path)
    log.segment(batch, keyed(3, "z"))
    result = log.clean_and_swap()
    assert log.offsets() == [1, 2, 3]
    assert result["statistics"]["invalid_records"] == 1


def test_long_keys_are_told_apart_and_found_again(tmp_path: Path) -> None:
    long, other = "k" * 32, "k" * 31 + "j"
    log = cleaned(tmp_path, keyed(0, long, other, "k" * 31, "x" * 5000), keyed(4, long, "x" * 5000))
    assert log.offsets() == [1, 2, 4, 5]


def test_a_tombstone_is_dated_then_goes(tmp_path: Path) -> None:
    log = cleaned(tmp_path, keyed(0, "a", "b"), keyed(2, "a!", "c"), keyed(4, "z"))
    assert log.offsets() == [1, 2, 3, 4]
    header = log.batches()[1][0]
    assert header.has_delete_horizon
    assert header.base_timestamp == LATER_MS
    assert header.max_timestamp == WALL_MS
    assert [timestamp for *_, timestamp in log.records()] == [WALL_MS] * 4
    log.segment(keyed(5, "q"))
    before = log.batches()
    log.clean_and_swap(wall_ms=LATER_MS - 1)
    assert log.batches() == before
    log.segment(keyed(6, "r"))
    log.clean_and_swap(wall_ms=LATER_MS)
    assert log.offsets() == [1, 3, 4, 5, 6]
    header = log.batches()[1][0]
    assert header.has_delete_horizon
    assert header.base_timestamp == LATER_MS


def test_a_tombstone_that_was_dated_elsewhere_goes_at_its_time(tmp_path: Path) -> None:
    """A follower gets batches from a leader that has cleaned them: dirty here, and dated."""
    log = cleaned(tmp_path, keyed(0, "a!", "b"), keyed(2, "z"))
    assert log.batches()[0][0].has_delete_horizon
    log.first_dirty_offset = 0
    log.clean_and_swap(wall_ms=LATER_MS - 1)
    assert log.offsets() == [0, 1, 2]
    log.first_dirty_offset = 0
    log.clean_and_swap(wall_ms=LATER_MS)
    assert log.offsets() == [1, 2]


def test_a_tombstone_that_is_written_over_dates_nothing(tmp_path: Path) -> None:
    log = cleaned(tmp_path, keyed(0, "a!", "b"), keyed(2, "a"))
    assert not any(header.has_delete_horizon for header, _ in log.batches())
    assert log.offsets() == [1, 2]


def test_the_last_batch_of_the_cleanable_part_stays_if_only_empty(tmp_path: Path) -> None:
    log = cleaned(tmp_path, keyed(0, "a", "b"), build_batch([record(2, None), record(3, None)]))
    header, data = log.batches()[-1]
    assert (header.base_offset, header.last_offset, header.record_count) == (2, 3, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, WALL_MS)
    check_crc(data, header)
    assert log.clean()["segments"] == []  # nothing is dirty any more


def test_the_last_batch_of_a_producer_stays_if_only_empty(tmp_path: Path) -> None:
    one = keyed(0, "a", "b", producer_id=7, producer_epoch=1, base_sequence=10, codec=Codec.ZSTD)
    two = keyed(2, "a", "b", producer_id=7, producer_epoch=1, base_sequence=12, codec=Codec.ZSTD)
    log = cleaned(tmp_path, one, two, keyed(4, "a", "b"), settings={"producers": [[7, 1, 3]]})
    assert [header.base_offset for header, _ in log.batches()] == [2, 4]
    header, data = log.batches()[0]
    assert len(data) == 61
    assert header.attributes == 0
    assert (header.producer_id, header.producer_epoch, header.last_sequence) == (7, 1, 13)
    log.segment(keyed(6, "z"))
    log.clean_and_swap(producers=[[7, 1, 3]])
    assert log.batches()[0] == (header, data)
    log.segment(keyed(7, "z"))
    log.clean_and_swap()  # the producer has expired
    assert [header.base_offset for header, _ in log.batches()] == [4, 7]


def test_records_above_the_map_stay(tmp_path: Path) -> None:
    """A full map ends the first pass; what it has not read stays, and is dirty."""
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a", "b", "a"), keyed(3, "b", "c", "a!"))
    log.segment(keyed(6, "a"))
    result = log.clean_and_swap(map_bytes=2 * ENTRY_BYTES, load_factor=1.0)
    assert result["end_offset"] == 2  # at two keys it is full, for a known key too
    assert log.offsets() == [0, 1, 2, 3, 4, 5, 6]
    assert log.bases() == [0, 6]
    for _ in range(5):
        log.clean_and_swap(map_bytes=2 * ENTRY_BYTES, load_factor=1.0)
    assert log.first_dirty_offset == 7
    assert log.offsets() == [3, 4, 6]


def test_what_lies_above_the_map_is_not_judged(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(build_batch([record(0, b"a"), record(1, None), record(2, b"b"), record(3, None)]))
    log.end_offset = 5
    log.clean_and_swap(map_bytes=ENTRY_BYTES, load_factor=1.0)
    assert (log.first_dirty_offset, log.offsets()) == (1, [0, 1, 2, 3])
    log.clean_and_swap(map_bytes=ENTRY_BYTES, load_factor=1.0)
    assert (log.first_dirty_offset, log.offsets()) == (5, [0, 2])


def test_a_pass_begins_where_the_last_one_ended(tmp_path: Path) -> None:
    """In the middle of a segment: its index says where to read from."""
    log = Cleanable(tmp_path)
    log.segment(*(keyed(offset, f"{offset % 7}") for offset in range(50)))
    read_bytes = log.clean_and_swap(map_bytes=ENTRY_BYTES * 7, load_factor=1.0)["statistics"]
    assert log.first_dirty_offset == 7
    log.first_dirty_offset = 30
    statistics = log.clean_and_swap(map_bytes=ENTRY_BYTES * 7, load_factor=1.0)["statistics"]
    assert statistics["map_bytes_read"] < read_bytes["map_bytes_read"] / 2
    assert log.first_dirty_offset == 37


def test_long_keys_need_long_digests() -> None:
    assert len({digest(b"k" * length) for length in range(32, 1000)}) == 968
    assert {len(digest(b"k" * length)) for length in range(32, 100)} == {32}


def test_a_marker_belongs_to_one_transaction(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(
        keyed(0, "a", producer_id=7, base_sequence=0, is_transactional=True),
        marker(MarkerType.COMMIT, 1, 7),
        marker(MarkerType.COMMIT, 2, 7),
        keyed(3, "b"),
    )
    log.clean_and_swap()
    dated = {header.base_offset: header.has_delete_horizon for header, _ in log.batches()}
    assert dated == {0: False, 1: False, 2: True, 3: False}


@pytest.mark.parametrize("kind", list(MarkerType))
def test_the_marker_of_a_transaction_stays_until_dated(tmp_path: Path, kind: MarkerType) -> None:
    log = Cleanable(tmp_path)
    data = keyed(0, "a", "b", producer_id=7, base_sequence=0, is_transactional=True)
    log.segment(data, marker(kind, 2, 7), keyed(3, "a", "b"))
    if kind is MarkerType.ABORT:
        log.aborted(0, (7, 0, 2, 3))
    log.clean_and_swap()  # the data goes
    assert [header.base_offset for header, _ in log.batches()] == [2, 3]
    assert not log.batches()[0][0].has_delete_horizon
    # an abort is listed as long as there may be batches of it
    assert log.file(0, "txnindex").exists() == (kind is MarkerType.ABORT)
    log.segment(keyed(5, "x"))
    log.clean_and_swap()  # the marker is dated
    header = log.batches()[0][0]
    assert (header.base_offset, header.record_count) == (2, 1)
    assert (header.has_delete_horizon, header.base_timestamp) == (True, LATER_MS)
    assert not log.file(0, "txnindex").exists()
    log.segment(keyed(6, "y"))
    log.clean_and_swap(wall_ms=LATER_MS)
    assert [header.base_offset for header, _ in log.batches()] == [3, 5, 6]


def test_an_aborted_record_replaces_nothing(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(
        keyed(0, "a", "b"),
        keyed(2, "a!", "c", producer_id=7, base_sequence=0, is_transactional=True),
        keyed(4, "b", producer_id=8, base_sequence=0, is_transactional=True),
        marker(MarkerType.ABORT, 5, 7),
        marker(MarkerType.COMMIT, 6, 8),
    )
    log.aborted(0, (7, 2, 5, 6))
    log.clean_and_swap()
    assert log.offsets() == [0, 4]


def test_an_abort_whose_marker_lies_behind_the_cleanable_part(tmp_path: Path) -> None:
    log = Cleanable(tmp_path)
    log.segment(keyed(0, "a"), keyed(1, "a", producer_id=7, base_sequence=0, is_transactional=True))
    log.segment(keyed(2, "x"))
    log.aborted(2, (7, 1, 3, 4))
    with log.file(2, "txnindex").open("ab") as growing:
        growing.write(b"\0\0\0")  # the broker is in the middle of a write
    log.end_offset = 2
    arguments = log.arguments()
    arguments["segments"] = arguments["segments"][:1]
    log.clean(**arguments)
    log.file(0, "log.cleaned").rename(log.file(0, "log"))
    log.file(2, "log").unlink()
    assert log.offsets() == [0]
    assert [header.base_offset for header, _ in log.batches()] == [0, 1]  # the last stays, empty


def test_a_control_batch_about_something_else_stays(tmp_path: Path) -> None:
    other = build_batch([record(0, b"\0\0\0\x02")], is_control=True)
    log = cleaned(tmp_path, other, keyed(1, "a"), keyed(2, "a"))
    assert log.batches()[0][1] == other


def test_a_second_cleaning_of_the_same_changes_nothing(tmp_path: Path) -> None:
    log = cleaned(tmp_path, keyed(0, "a", "b!", "c"), keyed(3, "c", "d!", "a"))
    before = log.batches()
    log.first_dirty_offset = 0
    log.clean_and_swap()
    assert log.batches() == before
    assert keys_of(before) == [[b"b"], [b"c", b"d", b"a"]]
