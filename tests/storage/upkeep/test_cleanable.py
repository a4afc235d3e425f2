"""Which log is compacted, and how far: a table after Kafka's LogCleanerManager."""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.records import MarkerType, Record, build_batch, control_batch, read_header
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.upkeep.cleanable import Cleanable, cleanable, filthiest

from ..support import WALL_MS, append, new_log, reload

COMPACT: Final = LogConfig(compacts=True, deletes=False)
OLD_MS: Final = 100_000  # so old is the first segment, the next ones are younger by
STEP_MS: Final = 10_000
SEGMENTS: Final = 5  # of 10 records and one size each, the last one is active


def log_in(path: Path, config: LogConfig = COMPACT, *, timestamps: bool = True) -> Log:
    """Segments at 0, 10, 20, 30 and 40; the high watermark at the end."""
    log = new_log(path, config)
    for number in range(SEGMENTS):
        log.roll(log.log_end_offset, WALL_MS)
        timestamp = WALL_MS - OLD_MS + number * STEP_MS if timestamps else -1
        records = [Record(i, timestamp, b"k", b"v") for i in range(10)]
        append(log, memoryview(build_batch(records)))
    log.high_watermark = log.log_end_offset
    return log


@dataclass(frozen=True)
class Case:
    """A log as in `log_in`, and what Kafka would do with it."""

    name: str
    first_dirty: int
    end: int
    clean: int  # segments
    dirty: int
    cleaner_offset: int | None = None
    high_watermark: int = 50
    log_start: int = 0
    min_lag_ms: int = 0
    max_lag_ms: int = 1 << 60
    overdue: bool = False


CASES: Final = [
    Case("never compacted", 0, 40, 0, 4),
    Case("compacted in part", 20, 40, 2, 2, cleaner_offset=20),
    Case("all compacted", 40, 40, 4, 0, cleaner_offset=40),
    Case("first dirty offset within a segment", 25, 40, 3, 2, cleaner_offset=25),
    Case("first dirty offset within the active segment", 45, 40, 5, 0, cleaner_offset=45),
    Case("segment not committed as a whole", 0, 20, 0, 2, high_watermark=25),
    Case("committed up to a segment", 0, 20, 0, 2, high_watermark=20),
    Case("nothing committed since", 20, 20, 2, 0, cleaner_offset=20, high_watermark=25),
    Case("nothing committed", 0, 0, 0, 0, high_watermark=0),
    Case("too young from the third on", 0, 20, 0, 2, min_lag_ms=OLD_MS - 2 * STEP_MS + 1),
    Case("just old enough", 0, 30, 0, 3, min_lag_ms=OLD_MS - 2 * STEP_MS),
    Case("all too young", 0, 0, 0, 0, min_lag_ms=OLD_MS + 1),
    Case("young, but compacted before", 30, 40, 3, 1, cleaner_offset=30, min_lag_ms=1),
    Case("log start moved past it", 25, 40, 3, 2, cleaner_offset=10, log_start=25),
    Case("offset beyond the log", 0, 40, 0, 4, cleaner_offset=51),
    Case("offset at the end of the log", 50, 40, 5, 0, cleaner_offset=50),
    Case("overdue", 0, 40, 0, 4, max_lag_ms=OLD_MS - 1, overdue=True),
    Case("just not overdue", 0, 40, 0, 4, max_lag_ms=OLD_MS),
    Case("what is overdue is clean", 10, 40, 1, 3, cleaner_offset=10, max_lag_ms=OLD_MS - 1),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_as_kafka(tmp_path: Path, case: Case) -> None:
    log = log_in(tmp_path)
    log.config = replace(
        COMPACT, min_compaction_lag_ms=case.min_lag_ms, max_compaction_lag_ms=case.max_lag_ms
    )
    log.advance_log_start(case.log_start)
    log._high_watermark = case.high_watermark
    log.cleaner_offset = case.cleaner_offset
    found = cleanable(log, WALL_MS)
    size_bytes = log.segments.active.size_bytes
    assert found == Cleanable(
        log,
        case.first_dirty,
        case.end,
        case.clean * size_bytes,
        case.dirty * size_bytes,
        case.overdue,
    )
    segments = [(segment.base_offset, end) for segment, end in found.segments()]
    assert segments == [(base, base + 10) for base in range(0, case.end, 10)]


@pytest.mark.parametrize(
    ("cleaner_offset", "log_start", "deletes", "warned"),
    [(10, 25, False, True), (10, 25, True, False), (51, 0, True, True), (20, 10, False, False)],
)
def test_an_offset_outside_the_log_is_reset_with_a_word(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    cleaner_offset: int,
    log_start: int,
    deletes: bool,
    warned: bool,
) -> None:
    log = log_in(tmp_path, replace(COMPACT, deletes=deletes))
    log.advance_log_start(log_start)
    log.cleaner_offset = cleaner_offset
    with caplog.at_level(logging.WARNING):
        cleanable(log, WALL_MS)
        cleanable(log, WALL_MS)
    assert caplog.text.count("first dirty offset outside the log") == warned
    assert log.cleaner_offset == (20 if cleaner_offset == 20 else log_start)


def test_a_segment_without_timestamps_is_as_old_as_its_file(tmp_path: Path) -> None:
    log = log_in(tmp_path, replace(COMPACT, min_compaction_lag_ms=1000), timestamps=False)
    written_ms = log.files.modified_ms(log.segments[0].file.path)
    assert cleanable(log, written_ms + 500).end_offset == 0
    assert cleanable(log, written_ms + 60_000).end_offset == 40


def test_times_are_read_from_the_files_too(tmp_path: Path) -> None:
    log = log_in(tmp_path, replace(COMPACT, min_compaction_lag_ms=OLD_MS - 2 * STEP_MS + 1))
    again = reload(log)
    again.high_watermark = again.log_end_offset
    assert cleanable(again, WALL_MS).end_offset == cleanable(log, WALL_MS).end_offset == 20


@pytest.mark.parametrize(
    ("clean", "dirty", "ratio", "overdue", "due"),
    [
        (100, 100, 0.5, False, False),  # must be above
        (99, 100, 0.5, False, True),
        (0, 1, 1.0, False, False),
        (1, 0, 0.0, False, False),
        (1000, 1, 0.0, False, True),
        (1000, 1, 1.0, True, True),
        (1000, 0, 0.0, True, False),
        (0, 0, 0.5, True, False),
    ],
)
def test_how_dirty_is_dirty_enough(
    tmp_path: Path, clean: int, dirty: int, ratio: float, overdue: bool, due: bool
) -> None:
    log = new_log(tmp_path, replace(COMPACT, min_cleanable_dirty_ratio=ratio))
    assert Cleanable(log, 0, 0, clean, dirty, overdue).is_due is due


def test_the_filthiest_comes_first(tmp_path: Path) -> None:
    log = new_log(tmp_path, COMPACT)
    found = [
        Cleanable(log, 0, 0, clean, 100, overdue)
        for clean, overdue in ((90, False), (10, False), (1000, True), (200, False))
    ]
    assert filthiest(found) is found[1]
    assert filthiest(found[2:]) is found[2]
    assert filthiest(found[3:]) is None


def test_a_truncation_takes_the_first_dirty_offset_back(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.cleaner_offset = 30
    log.truncate(45)
    assert log.cleaner_offset == 30
    log.truncate(25)
    assert log.cleaner_offset == 20
    log.restart_at(5)
    assert log.cleaner_offset == 5


def test_an_active_segment_rolls_before_its_records_are_overdue(tmp_path: Path) -> None:
    config = replace(COMPACT, segment_ms=1 << 40, max_compaction_lag_ms=1000)
    for compacts, expected in ((True, 2), (False, 1)):
        log = new_log(tmp_path / str(compacts), replace(config, compacts=compacts))
        for timestamp in (WALL_MS, WALL_MS + 1000, WALL_MS + 1001):
            batch = memoryview(build_batch([Record(0, timestamp, b"k", b"v")]))
            log.append(batch, read_header(batch), leader_epoch=0, wall_ms=WALL_MS)
        assert len(log.segments) == expected


def test_a_broken_first_batch_makes_nothing_overdue(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    log.config = replace(COMPACT, max_compaction_lag_ms=OLD_MS - 1)
    assert cleanable(log, WALL_MS).is_overdue
    path = Path(log.segments[0].file.path)
    path.write_bytes(bytes(path.stat().st_size))
    assert not cleanable(log, WALL_MS).is_overdue


def test_every_time_but_zero_can_be_overdue(tmp_path: Path) -> None:
    for timestamp, expected in ((0, False), (1, True)):
        log = new_log(tmp_path / str(timestamp), replace(COMPACT, max_compaction_lag_ms=1000))
        append(log, memoryview(build_batch([Record(0, timestamp, b"k", b"v")])))
        log.roll(log.log_end_offset, WALL_MS)
        assert cleanable(log, WALL_MS).is_overdue == expected


def test_a_producer_that_only_ended_a_transaction_has_no_last_offset(tmp_path: Path) -> None:
    log = log_in(tmp_path)
    marker = control_batch(
        MarkerType.ABORT, producer_id=7, producer_epoch=2, coordinator_epoch=0, timestamp=WALL_MS
    )
    append(log, memoryview(marker))
    assert cleanable(log, WALL_MS).producers() == [(7, 2, -1)]
