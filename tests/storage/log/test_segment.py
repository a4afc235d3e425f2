"""When a segment is full or too old, and what a start finds out about the one appended to."""

from pathlib import Path

import pytest

from odradek.storage.log.damage import DamagedRange
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.segment import Segment, create_missing_indexes

from ..support import SMALL, WALL_MS, append, append_values, batch_of, new_log, reload

SIZE_BYTES = len(batch_of([b"v"]))


def test_a_segment_takes_exactly_what_it_may(tmp_path: Path) -> None:
    log = new_log(tmp_path, LogConfig(segment_bytes=2 * SIZE_BYTES))
    for _ in range(3):
        append_values(log, b"v")
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_an_index_takes_exactly_what_it_may(tmp_path: Path) -> None:
    """Five entries of eight bytes; a segment's first batch has none."""
    log = new_log(tmp_path, LogConfig(segment_index_bytes=40, index_interval_bytes=1))
    for _ in range(7):
        append_values(log, b"v")
    assert [segment.base_offset for segment in log.segments] == [0, 6]


def test_the_age_counts_from_the_first_batch_after_a_start(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(3):
        append(log, batch_of([b"v"], timestamp=WALL_MS + number))
    again = reload(log).segments.active
    again.prepare(WALL_MS + 100, SMALL)
    assert (again.roll_by_clock, again.roll_start_ms) == (False, WALL_MS)


def test_index_files_that_were_made_are_listed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    infos = {info.name: info for info in log.files.list_directory(log.directory)}
    for suffix in (".index", ".timeindex"):
        (Path(log.directory) / f"{0:020d}{suffix}").unlink()
        del infos[f"{0:020d}{suffix}"]
    create_missing_indexes(log.files, log.segments.active, infos)
    there = {info.name: info for info in log.files.list_directory(log.directory)}
    assert infos == there


@pytest.mark.parametrize("rolled", [False, True])
def test_a_read_up_to_damage_gets_what_lies_before(tmp_path: Path, rolled: bool) -> None:
    log = new_log(tmp_path)
    for _ in range(4):
        append_values(log, b"v")
    damage = DamagedRange(2 * SIZE_BYTES, 3 * SIZE_BYTES, 2, 3, "for the test")
    log.segments.active.note_damage((damage,))
    if rolled:
        log.roll(log.log_end_offset, WALL_MS)
    span = log.read(0, size_bytes_max=1 << 20, offset_end=2)
    assert span is not None
    assert (span.size_bytes, span.next_offset) == (2 * SIZE_BYTES, 2)
    span.release()


def test_a_read_where_the_last_one_ended_looks_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path)
    for next_offset in (1, 2):
        append_values(log, b"v")
        span = log.read(next_offset - 1, size_bytes_max=1 << 20, offset_end=next_offset)
        assert span is not None
        assert (span.position, span.next_offset) == ((next_offset - 1) * SIZE_BYTES, next_offset)
        span.release()
        monkeypatch.setattr(Segment, "find", None)


def test_the_segment_before_becomes_the_active_one_again(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"v")
    log.roll(log.log_end_offset, WALL_MS)
    log.segments.remove_active()
    assert log.segments.active is log.segments[0]
