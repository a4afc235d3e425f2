"""Disk full, short writes, failing fsyncs, too many files: no trace in the log, no second fsync."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.storage.errors import DiskFull, LogDirFailed
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.log_file import Bytes
from tests.broker.batches import altered
from tests.support.descriptors import open_below

from ..support import (
    WALL_MS,
    UnsyncedFileSystem,
    append,
    append_values,
    batch_of,
    contents,
    files_of,
    flush,
    new_log,
    reload,
)

Write = Callable[[int, Bytes, int], int]
OpenFile = Callable[[str, int, int], int]


def no_space(descriptor: int, data: Bytes, position: int) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def broken(descriptor: int, data: Bytes, position: int) -> int:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def state_of(log: Log) -> tuple[object, ...]:
    active = log.segments.active
    return (
        log.log_end_offset,
        log.size_bytes,
        log.unflushed_bytes,
        log.epochs.entries(),
        [(entry.producer_id, entry.last_sequence) for entry in log.producers.entries()],
        active.max_timestamp,
        active.offset_index.size_bytes,
        Path(active.file.path).stat().st_size,
    )


@pytest.mark.parametrize(("failure", "error"), [(no_space, DiskFull), (broken, LogDirFailed)])
@pytest.mark.parametrize("written_first", [0, 1, 40])
def test_a_failed_append_leaves_no_trace(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    failure: Write,
    error: type[LogDirFailed],
    written_first: int,
) -> None:
    log = new_log(tmp_path, LogConfig(index_interval_bytes=10))
    for number in range(3):
        append_values(log, b"%d" % number)
    before = state_of(log)
    pwrite = os.pwrite

    def pwrite_some(descriptor: int, data: Bytes, position: int) -> int:
        if written_first and len(data) > 50:
            return pwrite(descriptor, bytes(data)[:written_first], position)
        return failure(descriptor, data, position)

    monkeypatch.setattr(os, "pwrite", pwrite_some)
    batch = batch_of([b"new" * 30], timestamp=WALL_MS + 9, producer_id=9)
    with pytest.raises(error) as raised:
        append(log, batch, leader_epoch=5)
    assert isinstance(raised.value.__cause__, OSError)
    assert state_of(log) == before
    monkeypatch.undo()
    assert append(log, batch, leader_epoch=5) == 3
    assert len(contents(log)) == len(contents(reload(log))) == 4


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = new_log(tmp_path, LogConfig())
    pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, bytes(data)[:7], at))
    append_values(log, b"whole" * 20)
    monkeypatch.undo()
    assert contents(reload(log)) == [(0, b"whole" * 20)]


def test_even_if_the_cut_fails_the_remains_are_outside_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path, LogConfig())
    append_values(log, b"0")
    pwrite = os.pwrite
    calls = []

    def pwrite_once(descriptor: int, data: Bytes, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.EIO, "broken")
        return pwrite(descriptor, bytes(data)[:-5], position)

    def ftruncate(descriptor: int, size: int) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "pwrite", pwrite_once)
    monkeypatch.setattr(os, "ftruncate", ftruncate)
    with pytest.raises(LogDirFailed):
        append_values(log, b"long" * 50)
    monkeypatch.undo()
    append_values(log, b"1")
    assert contents(log) == contents(reload(log)) == [(0, b"0"), (1, b"1")]


class NoRoomForEpochs(UnsyncedFileSystem):
    """The log can be cut, which needs no room."""

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        raise DiskFull("no space", path)


@pytest.mark.parametrize(("cut", "left"), [(Log.truncate, [0]), (Log.restart_at, [])])
def test_a_full_disk_leaves_no_producer_of_what_was_cut(
    tmp_path: Path, cut: Callable[[Log, int], int], left: list[int]
) -> None:
    log = new_log(tmp_path)
    for number in range(3):
        batch = batch_of([b"v"], producer_id=9, base_sequence=number)
        append(log, batch, leader_epoch=number)
    log.epochs._files = NoRoomForEpochs()
    with pytest.raises(DiskFull):
        cut(log, 1)
    assert log.log_end_offset == 1
    assert [entry.last_sequence for entry in log.producers.entries()] == left
    assert [epoch for epoch, _ in log.epochs.entries()] == left


def test_an_epoch_that_a_full_disk_does_not_note_is_in_the_log(tmp_path: Path) -> None:
    """With its batch, which is not refused when it is there; the file has it after a clean stop."""
    log = new_log(tmp_path)
    append_values(log, b"0")
    log.epochs._files = NoRoomForEpochs()
    append_values(log, b"1", leader_epoch=4)
    assert log.epochs.entries() == [(0, 0), (4, 1)]
    log.epochs._files = log.files
    log.close()
    assert (Path(log.directory) / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n4 1\n"


class FailingSync(UnsyncedFileSystem):
    """Fails the fsync once it is told to, and counts them."""

    fail = False
    calls = 0

    def fsync(self, descriptor: int) -> None:
        self.calls += 1
        if self.fail:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # delayed allocation


@pytest.mark.slow
def test_a_failed_fsync_is_not_tried_again(tmp_path: Path) -> None:
    files = FailingSync()
    log = new_log(tmp_path, files=files)
    append_values(log, b"a")
    plan = log.flush_plan()
    assert plan is not None
    files.fail = True
    with pytest.raises(LogDirFailed) as raised:
        plan.run()
    assert not isinstance(raised.value, DiskFull)
    plan.release()
    plan.release()
    files.fail = False
    calls = files.calls
    assert log.recovery_point == 0
    with pytest.raises(LogDirFailed, match="earlier fsync failed"):
        append_values(log, b"b")
    with pytest.raises(LogDirFailed):
        log.close()
    assert files.calls == calls


@pytest.mark.parametrize("files_made", range(4))
def test_a_failed_roll_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files_made: int
) -> None:
    """The snapshot and the new segment's three files are made, or not, in turn."""
    log = new_log(tmp_path)
    while log.segments.active.size_bytes < 850:
        append_values(log, b"x" * 20)
    before = state_of(log)
    names = set(os.listdir(log.directory))
    open_file = os.open
    made: list[str] = []

    def no_new_file(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            if len(made) == files_made:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            made.append(path)
        return open_file(path, flags, mode)

    monkeypatch.setattr(os, "open", no_new_file)
    with pytest.raises(DiskFull):
        append_values(log, b"y" * 200)
    monkeypatch.undo()
    assert len(made) == files_made
    assert state_of(log)[:6] == before[:6]
    assert {name for name in os.listdir(log.directory) if "snapshot" not in name} <= names
    append_values(log, b"z")  # still fits into the old segment
    assert len(log.segments) == 1
    append_values(log, b"y" * 200)
    assert len(log.segments) == 2
    assert contents(log) == contents(reload(log))


def test_a_full_disk_spoils_no_snapshot_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be all that is left of a producer."""
    log = new_log(tmp_path)
    append(log, batch_of([b"v"], producer_id=9))
    log.roll(1, WALL_MS)
    append_values(log, b"cut")
    log.truncate(1)
    before = files_of(log.directory)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: no_space(descriptor, data, 0))
        with pytest.raises(DiskFull):
            log.flushing.snapshot(log)
    assert files_of(log.directory) == before


def test_a_roll_before_a_gap_leaves_no_hole_on_a_full_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another leader may still have what compaction has taken from the first one."""
    log = new_log(tmp_path, LogConfig(segment_bytes=1000, compacts=True))
    while log.segments.active.size_bytes < 850:
        append_values(log, b"x" * 20)
    offset = log.log_end_offset
    behind_gap = altered(bytes(batch_of([b"y" * 200])), base_offset=offset + 50)
    before = contents(log)
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", no_space_for_batches)
        with pytest.raises(DiskFull):
            log.append_as_follower(memoryview(behind_gap), wall_ms=WALL_MS)
    assert len(log.segments) == 2
    for kept in (log, reload(log)):
        assert kept.log_end_offset == offset
        assert contents(kept) == before
    within = [altered(bytes(batch_of([b"v"])), base_offset=offset + more) for more in (0, 9)]
    log.append_as_follower(memoryview(b"".join((*within, behind_gap))), wall_ms=WALL_MS)
    added = [(offset, b"v"), (offset + 9, b"v"), (offset + 50, b"y" * 200)]
    assert contents(log) == contents(reload(log)) == before + added


def no_space_for_batches(
    descriptor: int, data: Bytes, position: int, *, pwrite: Callable[..., int] = os.pwrite
) -> int:
    if len(data) > 100:
        no_space(descriptor, data, position)
    return pwrite(descriptor, data, position)


def no_new_file(path: str, flags: int, mode: int = 0o777, *, open_file: OpenFile = os.open) -> int:
    """`os.open` on a disk that has no room for another name."""
    if flags & os.O_CREAT and not os.path.exists(path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    return open_file(path, flags, mode)


def test_a_log_that_can_not_begin_anew_stays_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = new_log(tmp_path)
    for number in range(30):
        append_values(log, b"%d" % number * 30)
    before = contents(log)
    assert len(log.segments) > 2
    for offset in (7, 100):
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", no_new_file)
            with pytest.raises(DiskFull):
                log.restart_at(offset)
        assert contents(log) == before
    flush(log)
    append_values(log, b"goes on")
    assert contents(reload(log)) == contents(log)
    log.restart_at(100)
    append_values(log, b"anew")
    assert contents(log) == contents(reload(log)) == [(100, b"anew")]


@pytest.mark.parametrize("number", [0, 1, -1])
def test_a_log_begins_anew_in_a_segment_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Which needs no room."""
    log = new_log(tmp_path)
    for value in range(30):
        append_values(log, b"%d" % value * 30)
    offset = log.segments[number].base_offset
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", no_new_file)
        log.epochs.truncate_end(0, write=False)  # its file would need room
        log.restart_at(offset)
    names = {path.name for path in Path(log.directory).glob("*.log")}
    assert names == {f"{offset:020d}.log"}
    append_values(log, b"anew")
    assert contents(log) == contents(reload(log)) == [(offset, b"anew")]


def test_an_empty_segment_inside_another_one_is_removed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for number in range(6):
        append_values(log, b"%d" % number)
    for suffix in (".log", ".index", ".timeindex"):
        (Path(log.directory) / f"{3:020d}{suffix}").write_bytes(b"")
    again = reload(log)
    assert len(again.segments) == 1
    assert contents(again) == contents(log)
    assert not (Path(log.directory) / f"{3:020d}.log").exists()


def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    files = UnsyncedFileSystem(open_files_max=8)
    logs = [new_log(tmp_path / str(number), files=files) for number in range(30)]
    for round_number in range(3):
        for log in logs:
            append_values(log, b"%d" % round_number)
    assert len(open_below(tmp_path)) <= 8
    spans = [log.read(0, size_bytes_max=1000, offset_end=3) for log in logs]
    assert len(open_below(tmp_path)) >= 30  # what is on its way stays open
    for log, span in zip(logs, spans, strict=True):
        assert span is not None
        assert span.read() == Path(log.segments.active.file.path).read_bytes()
        span.release()
    for log in logs:
        append_values(log, b"again")
        assert len(contents(log)) == 4
        log.close()
    assert open_below(tmp_path) == []
