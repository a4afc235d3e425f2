"""A power cut takes the end of one segment and leaves the next: both stay, and it is said."""

from dataclasses import replace
from pathlib import Path

import pytest

from odradek.storage.log.load_report import LoadReport
from odradek.storage.log.log import Log
from odradek.storage.recovery.load import LoadHints

from ..support import (
    SMALL,
    WALL_MS,
    append,
    append_values,
    batch_of,
    contents,
    flush,
    new_log,
    read_bytes,
    reload,
)

RECORDS = 60
COMMITTED = 50


def with_a_hole(tmp_path: Path, **config: bool) -> tuple[Log, range]:
    """A log that was killed, and which offsets of its third segment are gone."""
    log = new_log(tmp_path, replace(SMALL, **config))
    for number in range(RECORDS):
        batch = batch_of(
            [b"%d" % number], timestamp=WALL_MS + number, producer_id=7, base_sequence=number
        )
        append(log, batch, leader_epoch=number // 10)
    log.segments.active.write_indexes()
    torn, following = log.segments[2], log.segments[3]
    found = torn.find(following.base_offset - 4)
    assert found is not None
    torn.file.truncate(found[1])
    log.abandon()
    return log, range(found[0], following.base_offset)


def offsets(log: Log) -> list[int]:
    return [offset for offset, _ in contents(log)]


def test_what_is_missing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, hole = with_a_hole(tmp_path)
    committed = hole.start + 2
    again = reload(log, LoadHints(clean=False, high_watermark=committed))
    assert f"offsets={hole.start}..{hole.stop - 1} committed=2" in caplog.text
    assert again.loaded is not None
    assert again.loaded.lost_committed == 2
    assert again.log_end_offset == RECORDS
    again.abandon()


def test_compaction_leaves_such_holes_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log, _ = with_a_hole(tmp_path, compacts=True)
    again = reload(log, LoadHints(clean=False, high_watermark=RECORDS))
    assert (again.loaded or LoadReport()).lost_committed == 0
    assert "missing" not in caplog.text
    again.abandon()


def test_everything_works_around_it(tmp_path: Path) -> None:
    log, hole = with_a_hole(tmp_path)
    again = reload(log, LoadHints(clean=False, high_watermark=COMMITTED))
    kept = [offset for offset in range(RECORDS) if offset not in hole]
    assert offsets(again) == kept
    for missing in hole:
        assert read_bytes(again, missing) == read_bytes(again, hole.stop)
        found = again.offset_for_timestamp(WALL_MS + missing)
        assert found is not None
        assert found.offset == hole.stop
    assert [again.epochs.epoch_of(offset) for offset in kept] == [n // 10 for n in kept]
    assert append_values(again, b"new", leader_epoch=6) == RECORDS
    again.close()
    once_more = reload(again)
    assert offsets(once_more) == [*kept, RECORDS]
    once_more.high_watermark = RECORDS
    once_more.advance_log_start(hole.start + 1)
    assert offsets(once_more)[0] == hole.stop
    once_more.abandon()


def test_a_truncation_into_it_takes_it_away(tmp_path: Path) -> None:
    """Else the next batch would follow a gap in its segment, and a recovery would cut it."""
    log, hole = with_a_hole(tmp_path)
    again = reload(log, LoadHints(clean=False, high_watermark=COMMITTED))
    again.truncate(hole.start + 2)
    append_values(again, b"new", leader_epoch=7)
    flush(again)
    found = contents(again)
    assert found[-1] == (hole.start, b"new")
    again.abandon()
    once_more = reload(again)  # also without its checkpoint
    assert contents(once_more) == found
    once_more.abandon()


def test_where_records_are_missing_is_known(tmp_path: Path) -> None:
    """A replica that has others to copy from is cut there."""
    log, hole = with_a_hole(tmp_path)
    again = reload(log)
    assert again.loaded is not None
    assert again.loaded.gap_offset == hole.start
    assert again.truncate(hole.start) == hole.start
    again.abandon()


def test_a_look_at_a_segment_that_the_power_cut_has_spoilt(tmp_path: Path) -> None:
    """What a snapshot names is looked for up to a segment that has lost its index, too."""
    log, hole = with_a_hole(tmp_path)
    empty, spoilt = log.segments[3], log.segments[4]
    size_bytes = Path(spoilt.file.path).stat().st_size
    Path(empty.file.path).write_bytes(b"")
    Path(spoilt.file.path).write_bytes(bytes(size_bytes))
    Path(spoilt.time_index.file.path).unlink()
    again = reload(log, LoadHints(clean=False, recovery_point=empty.base_offset + 1))
    assert offsets(again) == list(range(hole.start))
    append_values(again, b"goes on")
    again.abandon()
