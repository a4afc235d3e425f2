"""What survives a power cut: a disk that keeps only what was synced.

`PowerCutFiles` notes which bytes and which names were made durable by an fsync, and `cut_power`
takes everything else away, in the harshest way that POSIX allows without reordering inside a file.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odradek.storage.directory.closing import close_steps
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.files import RealFileSystem
from odradek.storage.log.checkpoint import LEADER_EPOCH, parse_epochs
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.log_file import LogFile
from odradek.storage.log.producer_snapshot import snapshot_offsets
from odradek.storage.upkeep.retention import start_plan
from tests.support.descriptors import open_below

from ..support import WALL_MS, append, batch_of, contents, flush

CONFIG = LogConfig(segment_bytes=3000, index_interval_bytes=200)


class PowerCutFiles(RealFileSystem):
    """Remembers for each file its bytes at its last fsync, and each directory's synced names."""

    def __init__(self) -> None:
        super().__init__()
        self.synced_bytes: dict[int, bytes] = {}  # by inode
        self.synced_names: dict[str, dict[str, int]] = {}

    def fsync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if path.is_dir():
            self.synced_names[str(path)] = {
                entry.name: entry.stat().st_ino for entry in path.iterdir()
            }
        elif path.exists():
            self.synced_bytes[path.stat().st_ino] = path.read_bytes()

    def cut_power(self, root: Path, target: Path) -> None:
        """Make `target` what is left of `root`."""
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        for name, inode in self.synced_names.get(str(root), {}).items():
            source = root / name
            if source.is_dir() and source.stat().st_ino == inode:
                self.cut_power(source, target / name)
            elif inode in self.synced_bytes:
                (target / name).write_bytes(self.synced_bytes[inode])
            elif not source.is_dir():
                (target / name).write_bytes(b"")  # the name is there, the data is not


def opened(path: Path, files: RealFileSystem) -> DataDir:
    return DataDir.open(
        str(path), 1, "c" * 22, files, config_of=lambda topic: CONFIG, wall_ms=WALL_MS
    )


class Machine:
    """A data directory with one log, and what a power cut leaves of it."""

    def __init__(self, folder: Path, *, topic_id: bytes | None = None) -> None:
        self.files = PowerCutFiles()
        self.root, self.left = folder / "data", folder / "left"
        self.data_dir = opened(self.root, self.files)
        self.log = self.data_dir.create_log("t", 0, topic_id=topic_id, config=CONFIG)

    def cut_power(self) -> None:
        self.files.cut_power(self.root, self.left)

    def contents_after_power_cut(self) -> list[tuple[int, bytes]]:
        self.cut_power()
        again = opened(self.left, RealFileSystem())
        found = contents(again.logs["t", 0])
        again.abandon()
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    made = Machine(tmp_path)
    yield made
    made.data_dir.abandon()


@pytest.fixture
def small_snapshot_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odradek.storage.log.flush.SNAPSHOT_INTERVAL_BYTES", 2000)


@pytest.mark.usefixtures("small_snapshot_interval")
@pytest.mark.parametrize("seed", range(8))
def test_what_lies_below_the_recovery_point_survives_a_power_cut(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    machine = Machine(tmp_path, topic_id=bytes(16))
    log = machine.log
    values: list[tuple[int, bytes]] = []
    leader_epoch = 0
    for number in range(150):
        leader_epoch += chance.randrange(20) == 0
        batch = batch_of(
            [b"%d" % number], producer_id=3, base_sequence=number, timestamp=WALL_MS + number
        )
        values.append((append(log, batch, leader_epoch=leader_epoch), b"%d" % number))
        if chance.randrange(10) == 0:
            flush(log)
        if chance.randrange(15) == 0:
            machine.data_dir.checkpoint()
        if chance.randrange(10) == 0:
            machine.cut_power()
            assert_survived(machine.left, values[: log.recovery_point], log.epochs.entries())
    machine.data_dir.close()
    machine.cut_power()
    again = opened(machine.left, RealFileSystem())
    assert again.was_clean
    assert contents(again.logs["t", 0]) == values
    again.abandon()


def assert_survived(
    path: Path, values: list[tuple[int, bytes]], epochs: list[tuple[int, int]]
) -> None:
    again = opened(path, RealFileSystem())
    log = again.logs.get(("t", 0))
    if log is None:
        assert values == []
    else:
        assert contents(log)[: len(values)] == values
        assert [entry for entry in epochs if entry[1] < log.log_end_offset] == log.epochs.entries()
        if log.log_end_offset:
            entry = log.producers.entry(3)
            assert entry is not None
            offsets = [batch.last_offset for batch in entry.batches]
            assert offsets == sorted(set(offsets))  # none was noted twice
            assert entry.last_sequence == offsets[-1] == log.log_end_offset - 1
    again.abandon()


def test_the_indexes_of_finished_segments_survive_a_power_cut(machine: Machine) -> None:
    log = machine.log
    for number in range(100):
        append(log, batch_of([b"%d" % number]))
    flush(log)
    finished = list(log.segments)[:-1]
    assert finished
    machine.cut_power()
    for segment in finished:
        for path in map(Path, segment.paths()[:3]):
            left = machine.left / path.relative_to(machine.root)
            assert left.read_bytes() == path.read_bytes() != b""


def run_start_plan(log: Log) -> None:
    """Make safe that the log starts at its end."""
    plan = start_plan(log, log.log_end_offset)
    plan.run()
    log.flushed(plan)


@pytest.mark.parametrize("make_safe", [flush, run_start_plan])
def test_the_leader_epochs_survive_a_power_cut(
    machine: Machine, make_safe: Callable[[Log], None]
) -> None:
    """In their file: where compaction has taken all batches of an epoch, no load finds it."""
    log = machine.log
    for epoch in (3, 4):
        append(log, batch_of([b"a"]), leader_epoch=epoch)
        make_safe(log)
        machine.cut_power()
        checkpoint = machine.left / "t-0" / LEADER_EPOCH
        assert parse_epochs(checkpoint.read_bytes()) == log.epochs.entries()


@pytest.mark.usefixtures("small_snapshot_interval")
def test_snapshots_of_flushes_are_pruned_behind_the_checkpoint(tmp_path: Path) -> None:
    files = PowerCutFiles()
    data_dir = opened(tmp_path, files)
    log = data_dir.create_log("t", 0, topic_id=None, config=LogConfig())
    for number in range(300):
        append(log, batch_of([b"%d" % number], producer_id=3, base_sequence=number))
        if number % 50 == 49:
            flush(log)
    assert snapshot_offsets(files.list_names(log.directory)) == [50, 100, 150, 200, 250, 300]
    data_dir.checkpoint()
    assert snapshot_offsets(files.list_names(log.directory)) == [300]
    data_dir.abandon()


def test_a_plan_made_before_a_truncation_does_not_move_the_recovery_point(machine: Machine) -> None:
    log = machine.log
    for number in range(100):
        append(log, batch_of([b"%d" % number]))
    assert len(log.segments) > 2
    plan = log.flush_plan()
    assert plan is not None
    log.truncate(10)
    for number in range(100):
        append(log, batch_of([b"%d" % number]))
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 0
    assert log.unflushed_bytes > 0


def test_nothing_new_makes_no_plan(machine: Machine) -> None:
    log = machine.log
    assert log.flush_plan() is None
    append(log, batch_of([b"a"]))
    flush(log)
    assert log.flush_plan() is None


def test_a_cut_is_safe_once_it_is_flushed(machine: Machine) -> None:
    """Also if all that is left was safe before."""
    log = machine.log
    for number in range(3):
        append(log, batch_of([b"%d" % number]))
    for offset in (3, 1):
        log.truncate(offset)
        flush(log)
        assert log.flush_plan() is None
        machine.data_dir.checkpoint()
    assert machine.contents_after_power_cut() == [(0, b"0")]


@pytest.mark.parametrize("offset", [0, 1])
def test_a_cut_is_safe_after_a_clean_stop(machine: Machine, offset: int) -> None:
    """Or what was cut off would come back under a marker that says that all is as it should be."""
    log = machine.log
    for number in range(3):
        append(log, batch_of([b"%d" % number]))
    flush(log)
    log.truncate(offset)
    machine.data_dir.close()
    assert machine.contents_after_power_cut() == [(0, b"0")][:offset]


def test_logs_are_safe_before_a_clean_stop_writes_a_checkpoint(machine: Machine) -> None:
    """Their names as well: a recovery point must not be of a log that is not there."""
    log = machine.log
    append(log, batch_of([b"a"]))
    steps = close_steps(machine.data_dir, machine.files)
    for plan in next(steps):
        plan.run()
    assert machine.contents_after_power_cut() == [(0, b"a")]
    steps.close()


def test_what_a_stop_has_made_safe_is_not_written_again(machine: Machine) -> None:
    log = machine.log
    append(log, batch_of([b"a"], producer_id=3))
    plan = log.flushing.final_plan(log)
    assert plan is not None
    plan.run()
    log.flushed(plan)
    assert log.flushing.final_plan(log) is None


def test_a_segment_that_was_compacted_is_not_synced_any_more(machine: Machine) -> None:
    """Its files are closed and gone."""
    log = machine.log
    for number in range(100):
        append(log, batch_of([b"%d" % number]))
    replaced = log.segments[0]
    log.flushing.replaced([replaced])
    replaced.close()
    plan = log.flush_plan()
    assert plan is not None
    assert replaced.file.path not in plan._paths
    assert log.segments[1].file.path in plan._paths
    plan.run()
    log.flushed(plan)
    assert log.recovery_point == 100


class CountedFiles(RealFileSystem):
    """Looks how many files below `root` this process has open."""

    def __init__(self, root: Path, *, open_files_max: int) -> None:
        super().__init__(open_files_max=open_files_max)
        self.count_max = 0
        self._root = root

    def open_descriptor(self, file: LogFile) -> int:
        descriptor = super().open_descriptor(file)
        self._count()
        return descriptor

    def fsync(self, descriptor: int) -> None:
        self._count()

    def _count(self) -> None:
        self.count_max = max(self.count_max, len(open_below(self._root)))


@pytest.mark.slow
@pytest.mark.parametrize("stops", [False, True])
def test_more_segments_than_descriptors_are_made_safe(tmp_path: Path, *, stops: bool) -> None:
    files = CountedFiles(tmp_path, open_files_max=8)
    data_dir = opened(tmp_path, files)
    log = data_dir.create_log("t", 0, topic_id=None, config=LogConfig(segment_bytes=100))
    for number in range(40):
        append(log, batch_of([b"%d" % number]))
    assert len(log.segments) == 40
    if stops:
        data_dir.close()
    else:
        flush(log)
    assert log.recovery_point == 40
    assert 8 <= files.count_max <= 12  # the lock's, and those of what is synced by name, as well
    data_dir.abandon()
