"""Retention: which segments go (against a naive rule), and that no crash shows a gap."""

import os
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import DamagedRecords, DiskFull, OffsetOutOfRange
from odradek.storage.files import FileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.log_file import Bytes
from odradek.storage.log.plans import FlushPlan
from odradek.storage.recovery.load import LoadHints
from odradek.storage.upkeep.retention import (
    count_deletable,
    expire,
    knows_producers_from,
    newest_ms,
    remove_plan,
    removed,
    start_plan,
)
from tests.seeds import seeds

from ..crash.disk import Fate, Mark, Operation, RecordingFiles, crash, kept, lost, mangled
from ..support import (
    SMALL,
    WALL_MS,
    UnsyncedFileSystem,
    append,
    append_values,
    batch_of,
    clean_hints,
    contents,
    new_log,
    read_bytes,
    reload,
)

HOUR_MS: Final = 3_600_000
KEEP_ALL: Final = replace(SMALL, retention_ms=-1, retention_bytes=-1)
BY_SIZE: Final = replace(KEEP_ALL, retention_bytes=1500)
BY_TIME: Final = replace(KEEP_ALL, retention_ms=HOUR_MS)
NOTHING: Final = replace(KEEP_ALL, retention_bytes=0)
POINTS: Final = len(seeds(4, 40))  # crashes of each life


# -- the decision


@dataclass
class Fake:
    """A segment as far as the decision looks at it."""

    base_offset: int
    size_bytes: int
    newest_ms: int


@dataclass
class Case:
    """A log to decide about."""

    segments: list[Fake]
    end: int
    start: int
    high_watermark: int
    config: LogConfig

    def count(self) -> int:
        return count_deletable(
            self.segments,
            log_start_offset=self.start,
            log_end_offset=self.end,
            high_watermark=self.high_watermark,
            config=self.config,
            wall_ms=WALL_MS,
            newest_ms=lambda segment: segment.newest_ms,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """A few segments, of which the last may be empty."""
    segments, offset = [], draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 6))):
        age_ms = draw(st.integers(-2, 6))
        segments.append(Fake(offset, draw(st.integers(1, 5)), WALL_MS - age_ms))
        offset += draw(st.integers(1, 3))
    if draw(st.booleans()):
        segments[-1].size_bytes, offset = 0, segments[-1].base_offset
    high_watermark = draw(st.integers(segments[0].base_offset, offset))
    config = LogConfig(
        deletes=draw(st.booleans()),
        compacts=draw(st.booleans()),
        retention_ms=draw(st.integers(-1, 5)),
        retention_bytes=draw(st.integers(-1, 15)),
    )
    start = draw(st.integers(segments[0].base_offset, high_watermark))
    return Case(segments, offset, start, high_watermark, config)


def naive_count(case: Case) -> int:
    """Take the oldest away, one by one, as long as one of the three rules says so, in their order.

    As Kafka does: each rule begins where the one before has stopped, and the size is looked at when
    its rule begins.
    """
    left = list(case.segments)

    def end_of_first() -> int:
        return left[1].base_offset if len(left) > 1 else case.end

    def may_go() -> bool:
        is_empty_active = len(left) == 1 and left[0].size_bytes == 0
        return bool(left) and end_of_first() <= case.high_watermark and not is_empty_active

    while may_go() and len(left) > 1 and left[1].base_offset <= case.start:
        left.pop(0)
    if case.config.deletes:
        limit = case.config.retention_bytes
        while limit >= 0 and may_go() and sum(s.size_bytes for s in left[1:]) >= limit:
            left.pop(0)
        limit = case.config.retention_ms
        while limit >= 0 and may_go() and WALL_MS - left[0].newest_ms > limit:
            left.pop(0)
    return len(case.segments) - len(left)


@pytest.mark.slow
@given(cases())
def test_the_decision_is_that_of_a_naive_rule(case: Case) -> None:
    assert case.count() == naive_count(case)


def test_timestamps_are_asked_for_only_as_far_as_they_matter() -> None:
    segments = [Fake(n, 10, WALL_MS - (2 - n) * HOUR_MS) for n in range(5)]
    asked = []

    def newest_ms(segment: Fake) -> int:
        asked.append(segment.base_offset)
        return segment.newest_ms

    config = replace(BY_TIME, retention_bytes=-1)
    ends = {"log_start_offset": 0, "log_end_offset": 5, "high_watermark": 5}
    decide = {"config": config, "wall_ms": WALL_MS, "newest_ms": newest_ms}
    assert count_deletable(segments, **ends, **decide) == 1  # type: ignore[arg-type]
    assert asked == [0, 1]


# -- a log


def filled(log: Log, count: int = 40, *, age_ms: int = 0, first: int = 0) -> None:
    """One record a batch, of one producer, its number as the value; all of it committed."""
    for number in range(first, first + count):
        batch = batch_of(
            [b"%d" % number * 20],
            timestamp=WALL_MS - age_ms + number,
            producer_id=3,
            base_sequence=number,
        )
        append(log, batch)
    log.high_watermark = log.log_end_offset


def retain(log: Log, config: LogConfig, wall_ms: int = WALL_MS) -> int:
    """All steps at once; returns where the log starts."""
    log.config = config
    offset = expire(log, wall_ms)
    if offset is not None:
        if not knows_producers_from(log, offset):
            run_and_report(log, log.flush_plan())
            assert knows_producers_from(log, offset)
        run_and_report(log, start_plan(log, offset))
        plan = remove_plan(log, offset)
        assert plan is not None
        plan.run()
        removed(log)
        plan.unlink_plan().run()
    return log.log_start_offset


def run_and_report(log: Log, plan: FlushPlan | None) -> None:
    if plan is not None:
        plan.run()
        log.flushed(plan)


def stems(log: Log, suffix: str) -> list[int]:
    names = os.listdir(log.directory)
    return sorted(int(name.removesuffix(suffix)) for name in names if name.endswith(suffix))


def bases(log: Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


def test_by_size_the_oldest_go_with_all_their_files(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    before = bases(log)
    values = contents(log)
    start = retain(log, BY_SIZE)
    assert start in before[1:]
    assert 1500 <= log.size_bytes < 1500 + 1000
    assert contents(log) == values[start:]
    assert bases(log) == stems(log, ".log") == stems(log, ".index") == stems(log, ".timeindex")
    assert stems(log, ".snapshot") == [base for base in bases(log) if base]
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]
    assert log.epochs.entries() == [(0, start)]
    with pytest.raises(OffsetOutOfRange):
        read_bytes(log, start - 1)
    assert retain(log, BY_SIZE) == start


def test_by_time_a_segment_goes_when_its_newest_record_is_too_old(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log, age_ms=0)
    second = log.segments[1]
    newest = log.segments[0].max_timestamp
    assert newest == WALL_MS + second.base_offset - 1
    assert retain(log, BY_TIME, newest + HOUR_MS) == 0
    assert retain(log, BY_TIME, newest + HOUR_MS + 1) == second.base_offset


def test_a_loaded_log_knows_its_ages_and_holds_no_descriptors(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    second, newest = log.segments[1].base_offset, log.segments[0].max_timestamp
    log.close()
    files = UnsyncedFileSystem()
    log = reload(log, clean_hints(log), files=files)
    assert retain(log, BY_TIME, newest + HOUR_MS + 1) == second
    assert not files._open


def test_without_timestamps_the_time_of_the_file_counts(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    for _ in range(20):
        append(log, batch_of([b"x" * 90], timestamp=-1))
    log.high_watermark = log.log_end_offset
    first, second = log.segments[0], log.segments[1]
    os.utime(first.file.path, (WALL_MS // 1000, WALL_MS // 1000))
    assert retain(log, BY_TIME, WALL_MS + HOUR_MS) == 0
    assert retain(log, BY_TIME, WALL_MS + HOUR_MS + 1) == second.base_offset


@pytest.mark.parametrize("config", [NOTHING, replace(KEEP_ALL, retention_ms=0)])
def test_if_all_is_too_old_the_active_segment_goes_too(tmp_path: Path, config: LogConfig) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log, age_ms=HOUR_MS)
    assert retain(log, config) == 40 == log.log_end_offset
    assert bases(log) == stems(log, ".log") == [40]
    assert contents(log) == []
    assert retain(log, config) == 40
    filled(log, 3, first=40, age_ms=HOUR_MS)
    again = reload(log)
    assert [offset for offset, _ in contents(again)] == [40, 41, 42]
    assert retain(log, config) == 43


def test_an_empty_log_is_left_alone(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    assert retain(log, NOTHING) == 0
    assert bases(log) == [0]


def test_only_what_is_committed_goes(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log, 20)
    committed = log.log_end_offset
    for number in range(20):
        append_values(log, b"%d" % number * 30)
    limit = max(base for base in bases(log) if base <= committed)
    assert retain(log, NOTHING) == limit
    assert log.log_end_offset == 40


def test_compacted_logs_lose_only_what_lies_below_the_log_start(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log, age_ms=5 * HOUR_MS)
    only = replace(NOTHING, retention_ms=1, deletes=False, compacts=True)
    assert retain(log, only) == 0
    third = log.segments[2].base_offset
    log.advance_log_start(third + 1)
    assert retain(log, only) == third + 1
    assert bases(log)[0] == third
    assert contents(log)[0][0] == third + 1
    assert retain(log, replace(only, deletes=True)) == 40


def test_a_reader_of_a_deleted_segment_finishes(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    data = read_bytes(log, 0)
    span = log.read(0, size_bytes_max=1 << 20, offset_end=40)
    assert span is not None
    read_bytes(log, 0)  # where the next one begins is remembered
    assert retain(log, NOTHING) == 40
    assert span.read() == data
    assert not span.dropped
    span.release()
    append_values(log, b"after")
    assert contents(log) == [(40, b"after")]


def test_unflushed_segments_may_go_while_a_flush_runs(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    plan = log.flush_plan()
    assert plan is not None
    filled(log, 20, first=40)
    start = retain(log, BY_SIZE)
    assert log.recovery_point == start
    run_and_report(log, plan)
    assert log.recovery_point == max(start, 40)
    run_and_report(log, log.flush_plan())
    assert log.recovery_point == 60


def test_producers_are_not_forgotten(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    start = retain(log, NOTHING)
    hints = directory_hints(log)
    log.abandon()
    entry = reload(log, hints).producers.entry(3)
    assert start == 40
    assert entry is not None
    assert entry.last_sequence == 39


def test_without_a_snapshot_it_waits_for_one_that_is_safe(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    for stem in stems(log, ".snapshot"):
        os.unlink(f"{log.directory}/{stem:020d}.snapshot")
    log.config = BY_SIZE
    offset = expire(log, WALL_MS)
    assert offset is not None
    assert not knows_producers_from(log, offset)
    filled(log, 1, first=40)
    run_and_report(log, log.flush_plan())
    assert knows_producers_from(log, offset)


def test_a_partition_that_is_deleted_meanwhile_is_no_failure(tmp_path: Path) -> None:
    log = new_log(tmp_path, KEEP_ALL)
    filled(log)
    log.config = NOTHING
    offset = expire(log, WALL_MS)
    assert offset is not None
    plan = remove_plan(log, offset)
    assert plan is not None
    log.delete(bytes(16)).run()
    plan.run()
    plan.unlink_plan().run()
    assert os.listdir(tmp_path) == []


class FullFiles(UnsyncedFileSystem):
    """A disk without room for whole new files."""

    is_full = False

    def _write(self, path: str, data: Bytes, *, sync: bool) -> None:
        if self.is_full:
            raise DiskFull("full", path)
        super()._write(path, data, sync=sync)


def test_a_full_disk_does_not_keep_segments_from_going(tmp_path: Path) -> None:
    files = FullFiles()
    log = new_log(tmp_path, KEEP_ALL, files)
    filled(log)
    files.is_full = True
    assert retain(log, BY_SIZE) > 0
    assert len(log.segments) > 1
    assert retain(log, NOTHING) == log.segments.active.base_offset
    assert bases(log) == stems(log, ".log") == [log.segments.active.base_offset]
    with pytest.raises(DiskFull):
        retain(log, NOTHING)  # the active one can't be replaced
    files.is_full = False
    assert retain(log, NOTHING) == 40


# -- crashes


def directory_hints(log: Log) -> LoadHints:
    return LoadHints(
        clean=False,
        recovery_point=log.recovery_point,
        log_start_offset=log.log_start_offset,
        high_watermark=log.high_watermark,
    )


def opened(path: Path, files: FileSystem) -> DataDir:
    return DataDir.open(
        str(path), 1, "c" * 22, files, config_of=lambda topic: KEEP_ALL, wall_ms=WALL_MS
    )


@dataclass(frozen=True)
class Known:
    """What must hold after a crash at this point."""

    start_min: int
    """A checkpoint with this log start was on disk: nothing below comes back."""
    start_max: int
    end_min: int


def record_a_life(path: Path, config: LogConfig, *, is_flushed: bool) -> RecordingFiles:
    """Fill a log, maybe flush it, delete by `config`, append, delete again."""
    files = RecordingFiles(path)
    directory = opened(path, files)
    log = directory.create_log("t", 0, topic_id=bytes(16), config=KEEP_ALL)
    run_and_report(log, log.flush_plan())
    files.mark(Known(0, 0, 0))
    for first in (0, 40):
        filled(log, 40, first=first)
        start_before = log.log_start_offset
        if is_flushed:
            run_and_report(log, log.flush_plan())
            directory.checkpoint()
            files.mark(Known(start_before, start_before, log.log_end_offset))
        log.config = config
        offset = expire(log, WALL_MS)
        assert offset is not None
        end_min = log.log_end_offset if is_flushed else 0
        files.mark(Known(start_before, log.log_start_offset, end_min))
        assert knows_producers_from(log, offset)
        run_and_report(log, start_plan(log, offset))
        directory.checkpoint()
        end_min = max(end_min, log.log_start_offset)
        files.mark(Known(log.log_start_offset, log.log_start_offset, end_min))
        plan = remove_plan(log, offset)
        assert plan is not None
        directory.checkpoint()  # of somebody else, while the files are renamed
        plan.run()
        removed(log)
        directory.checkpoint()
        plan.unlink_plan().run()
        log.config = KEEP_ALL
    directory.abandon()
    return files


def check_crash(path: Path, known: Known, *, is_flushed: bool, is_killed: bool) -> None:
    """`is_killed`: the process only, so that all that was written is there, synced or not."""
    directory = opened(path, UnsyncedFileSystem())
    log = directory.logs.get(("t", 0))
    if log is None:
        assert known.end_min == 0
        directory.abandon()
        return
    start, end = log.log_start_offset, log.log_end_offset
    assert known.start_min <= start
    assert end >= known.end_min
    must_end = end if is_killed else known.end_min
    try:
        found = contents(log)
    except DamagedRecords:  # what was not durable, of which a part came to the disk
        assert must_end <= start
        found = []
    assert all(value == b"%d" % offset * 20 for offset, value in found)
    assert {offset for offset, _ in found} >= set(range(start, must_end))
    if is_flushed or is_killed:
        assert start <= known.start_max
        assert start == end or log.epochs.epoch_of(start) == 0
    if must_end:
        entry = log.producers.entry(3)
        assert entry is not None, "the producer is forgotten"
        assert must_end - 1 <= entry.last_sequence < max(end, 1)
    # It goes on from there: what was interrupted is done again.
    filled(log, 5, first=end)
    retain(log, BY_SIZE)
    assert bases(log) == stems(log, ".log")
    directory.abandon()


def points(
    operations: Sequence[Operation], knowns: Sequence[tuple[int, object]], chance: random.Random
) -> Sequence[int]:
    """How many operations were done at the crash: any number, but most within a deletion."""
    within = range(knowns[1][0] + 1, len(operations) + 1)
    return sorted(chance.sample(within, min(len(within), POINTS)))


@pytest.mark.parametrize("is_flushed", [True, False], ids=["flushed", "unflushed"])
@pytest.mark.parametrize("config", [BY_SIZE, NOTHING], ids=["some", "all"])
@pytest.mark.parametrize("fate", [kept, lost, mangled], ids=lambda fate: fate.__name__)
def test_no_crash_shows_a_gap_or_brings_records_back(
    tmp_path: Path, config: LogConfig, fate: Fate, is_flushed: bool
) -> None:
    (tmp_path / "life").mkdir()
    files = record_a_life(tmp_path / "life", config, is_flushed=is_flushed)
    operations = files.operations
    knowns = [(at, op.what) for at, op in enumerate(operations) if isinstance(op, Mark)]
    chance = random.Random(7)
    for number, count in enumerate(points(operations, knowns, chance)):
        path = tmp_path / f"crash-{number}"
        path.mkdir()
        known = [what for at, what in knowns if at < count][-1]
        assert isinstance(known, Known)
        crash(operations[:count], fate, chance, path)
        check_crash(path, known, is_flushed=is_flushed, is_killed=fate is kept)


def test_a_time_of_zero_is_a_time(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append(log, batch_of([b"a"], timestamp=0))
    assert newest_ms(log, log.segments.active) == 0


def test_epochs_that_lag_are_written_before_segments_go(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(3):
        log.roll(log.log_end_offset, WALL_MS)
        append_values(log, b"%d" % number)
    log.high_watermark = log.log_end_offset
    log.advance_log_start(1)
    log.epochs.lags = True
    assert remove_plan(log, 1) is not None
    assert not log.epochs.lags
