"""The set of data directories: which are in use, where partitions go, what two of one name mean."""

import errno
import logging
import struct
import zlib
from pathlib import Path

import pytest

from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.directory.moving import MARKER, Copy, future_directory
from odradek.storage.errors import DataDirError, DiskFull
from odradek.storage.files import FileLock
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.log_file import Bytes, fail

from ..support import SMALL, WALL_MS, UnsyncedFileSystem, append_values, contents


def opened(path: Path, *names: str, files: UnsyncedFileSystem | None = None) -> LogDirs:
    paths = [str(path / name) for name in names or ("a", "b")]
    log_dirs = LogDirs.lock(paths, files or UnsyncedFileSystem())
    try:
        log_dirs.identify(1, "cluster")
        log_dirs.load(lambda topic: LogConfig(), WALL_MS)
    except BaseException:
        log_dirs.abandon()
        raise
    return log_dirs


def with_log(path: Path, name: str, count: int, *, marked: bool = False) -> None:
    """A directory `name` that holds t-0 with so many records."""
    log_dirs = opened(path, name)
    log = log_dirs.first.create_log("t", 0, topic_id=bytes(16), config=SMALL)
    for number in range(count):
        append_values(log, b"%d" % number)
    log_dirs.close()
    if marked:
        (path / name / "t-0" / MARKER).touch()


def copy_all(copy: Copy) -> None:
    while (span := copy.next_span(200)) is not None:
        copy.append(span.read(), WALL_MS)
        span.release()


def served(log_dirs: LogDirs) -> Log:
    log = log_dirs.find("t", 0)
    assert log is not None
    return log


@pytest.mark.parametrize("copied", [5, 7])
def test_a_move_that_was_nearly_over_is_completed(tmp_path: Path, copied: int) -> None:
    with_log(tmp_path, "a", 5)
    with_log(tmp_path, "b", copied, marked=True)
    for names in (("a", "b"), ("b", "a")):
        log_dirs = opened(tmp_path, *names)
        assert served(log_dirs).directory == f"{tmp_path}/b/t-0"
        assert len(contents(served(log_dirs))) == copied
        assert not (tmp_path / "b/t-0" / MARKER).exists()
        for data_dir in log_dirs.online:
            for plan in data_dir.deleted_plans():
                plan.run()
        log_dirs.close()
    assert [p for p in (tmp_path / "a").iterdir() if p.is_dir()] == []


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_a_move_that_was_not_over_goes_on(tmp_path: Path, names: tuple[str, str]) -> None:
    with_log(tmp_path, "a", 5)
    with_log(tmp_path, "b", 4, marked=True)
    log_dirs = opened(tmp_path, *names)
    assert served(log_dirs).directory == f"{tmp_path}/a/t-0"
    found = log_dirs.find_future("t", 0)
    assert found is not None
    assert found[1].directory == f"{tmp_path}/b/" + future_directory("t", 0, bytes(16))
    assert Copy(served(log_dirs), found[1]).lag == 1
    log_dirs.close()


@pytest.mark.parametrize("marked", [False, True])
def test_two_of_one_name_are_refused_with_both_names(tmp_path: Path, marked: bool) -> None:
    with_log(tmp_path, "a", 5, marked=marked)
    with_log(tmp_path, "b", 5, marked=marked)
    with pytest.raises(DataDirError) as error:
        opened(tmp_path)
    assert f"{tmp_path}/a/t-0 and {tmp_path}/b/t-0 hold the same partition" in str(error.value)
    assert (tmp_path / "a/t-0").is_dir()
    assert (tmp_path / "b/t-0").is_dir()


def test_one_directory_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    for names in (("a", "a"), ("a", "b"), ("a", "x/../a")):
        with pytest.raises(DataDirError, match="twice"):
            opened(tmp_path, *names)


def test_one_directory_within_another_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").symlink_to("a")
    for names in (("a", "a/t-0"), ("a/t-0", "a"), ("b", "c", "a/x/y"), ("a", "b/x")):
        with pytest.raises(DataDirError, match="lies in"):
            opened(tmp_path, *names)
    assert list((tmp_path / "a").iterdir()) == []
    opened(tmp_path, "a", "a-0").close()


def test_directories_of_different_owners_are_refused(tmp_path: Path) -> None:
    opened(tmp_path, "a").close()
    log_dirs = LogDirs.lock([str(tmp_path / "b")], UnsyncedFileSystem())
    log_dirs.identify(2, "cluster")
    log_dirs.abandon()
    with pytest.raises(DataDirError, match="belongs to broker 2, not to broker 1"):
        opened(tmp_path)


def test_a_directory_in_use_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    other = opened(tmp_path, "b")
    with pytest.raises(DataDirError, match="is locked by another broker"):
        opened(tmp_path)
    other.close()
    opened(tmp_path).close()


class NoLock(UnsyncedFileSystem):
    """A disk on which one directory can't be locked."""

    broken = "b"

    def lock(self, path: str) -> FileLock:
        if path.endswith(f"/{self.broken}/.lock"):
            fail(path, OSError(5, "Input/output error"))
        return super().lock(path)


def test_a_broken_disk_is_left_out_unless_it_is_the_first(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path, "a", "b", "c", files=NoLock())
    assert [data_dir.path for data_dir in log_dirs.online] == [f"{tmp_path}/a", f"{tmp_path}/c"]
    assert not log_dirs.is_complete
    log_dirs.close()
    with pytest.raises(DataDirError, match="not writable"):
        opened(tmp_path, "b", "a", files=NoLock())
    opened(tmp_path, "a", "c").close()


def test_any_disk_may_be_broken_where_the_store_is_elsewhere_but_not_all(tmp_path: Path) -> None:
    a, b = f"{tmp_path}/a", f"{tmp_path}/b"
    log_dirs = LogDirs.lock([b, a], NoLock(), needs_first=False)
    (left,) = log_dirs.online
    assert left.path == a
    assert not log_dirs.can_lose(left)
    log_dirs.abandon()
    with pytest.raises(DataDirError, match="not writable"):
        LogDirs.lock([b], NoLock(), needs_first=False)
    both = LogDirs.lock([a, b], UnsyncedFileSystem(), needs_first=False)
    assert all(map(both.can_lose, both.online))
    both.abandon()


def test_a_file_belongs_to_the_directory_it_lies_in(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path, "a", "ab")
    for name in ("a", "ab"):
        found = log_dirs.of(f"{tmp_path}/{name}/t-0/x.log")
        assert found is log_dirs.of_path(f"{tmp_path}/{name}") is not None
    assert log_dirs.of(f"{tmp_path}/abc/x") is None
    log_dirs.close()


class FullFiles(UnsyncedFileSystem):
    """Has no room for one kind of file once told so."""

    full_for = "nothing"

    def create(self, path: str) -> None:
        if path.endswith(self.full_for):
            fail(path, OSError(errno.ENOSPC, "full"))
        super().create(path)

    def write_bytes(self, path: str, data: Bytes) -> None:
        if path.endswith(self.full_for):
            fail(path, OSError(errno.ENOSPC, "full"))
        super().write_bytes(path, data)

    def write_atomic(self, path: str, data: Bytes, *, sync: bool = True) -> None:
        if path.endswith(self.full_for):
            fail(path, OSError(errno.ENOSPC, "full"))
        super().write_atomic(path, data, sync=sync)


@pytest.mark.parametrize("full_for", [".log", "partition.metadata"])
def test_a_copy_that_could_not_be_made_leaves_nothing(tmp_path: Path, full_for: str) -> None:
    with_log(tmp_path, "a", 5)
    files = FullFiles()
    log_dirs = opened(tmp_path, "a", "b", files=files)
    files.full_for = full_for
    name = future_directory("t", 0, bytes(16))
    before = sorted((tmp_path / "b").iterdir())
    with pytest.raises(DiskFull):
        log_dirs.online[1].create_future(served(log_dirs), name)
    assert sorted((tmp_path / "b").iterdir()) == before
    assert log_dirs.find_future("t", 0) is None
    files.full_for = "nothing"
    log_dirs.online[1].create_future(served(log_dirs), name)
    log_dirs.close()


def test_a_full_stop_marks_only_what_is_in_use(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path)
    log_dirs.fail(log_dirs.online[1])
    log_dirs.close()
    assert (tmp_path / "a/.kafka_cleanshutdown").exists()
    assert not (tmp_path / "b/.kafka_cleanshutdown").exists()


def test_one_that_cannot_be_loaded_is_not_replaced_by_another(tmp_path: Path) -> None:
    with_log(tmp_path, "a", 5)
    with_log(tmp_path, "b", 5)
    (tmp_path / "b/other-0").mkdir()
    (tmp_path / "b/t-0" / f"{0:020d}.log").write_bytes(old_message())
    with pytest.raises(DataDirError, match="hold the same partition"):
        opened(tmp_path)


def old_message() -> bytes:
    """A message of format 0, which is refused and kept."""
    body = struct.pack(">bbii", 0, 0, -1, 1) + b"v"
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


def copied(log_dirs: LogDirs) -> Copy:
    """A copy of t-0, half done."""
    log = log_dirs.first.create_log("t", 0, topic_id=bytes(16), config=SMALL)
    for number in range(20):
        append_values(log, b"%d" % number)
    log.high_watermark = 20
    copy = Copy(log, log_dirs.online[1].create_future(log, future_directory("t", 0, bytes(16))))
    go_on(copy, until=10)
    return copy


def go_on(copy: Copy, until: int = 1 << 62) -> None:
    while copy.future.log_end_offset < until:
        span = copy.next_span(150)
        if span is None:
            return
        copy.append(span.read(), WALL_MS)
        span.release()


def test_what_changes_in_the_old_log_begins_the_copy_anew(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path)
    copy = copied(log_dirs)
    source, future = copy.source, copy.future
    assert 10 <= future.log_end_offset < 20
    source.cleaner_offset = 5  # compacted: what replaced the first half was not copied
    span = copy.next_span(150)
    assert span is not None
    span.release()
    assert future.log_end_offset < 10
    go_on(copy)
    assert contents(future) == contents(source)
    source.truncate(15)
    append_values(source, b"other")
    go_on(copy)
    assert contents(future) == contents(source)
    source.high_watermark = 16
    source.restart_at(100)
    append_values(source, b"far")
    go_on(copy)
    copy.complete()
    assert contents(future) == contents(source) == [(100, b"far")]
    assert future.log_start_offset == 100
    log_dirs.abandon()


def test_an_end_without_records_is_reached(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path)
    copy = copied(log_dirs)
    go_on(copy)
    copy.source.roll(30, WALL_MS)
    copy.source.log_end_offset = 30
    go_on(copy)
    copy.skip_to_end(WALL_MS)
    copy.complete()
    assert copy.future.log_end_offset == 30
    assert append_values(copy.future, b"x") == 30
    assert contents(copy.future)[-1] == (30, b"x")
    log_dirs.abandon()


def test_a_copy_lacks_nothing_where_the_old_log_has_no_records(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its segments begin after its log start; a crash then is no loss, and nothing is cut."""
    log_dirs = opened(tmp_path)
    source = log_dirs.first.create_log("t", 0, topic_id=bytes(16), config=SMALL)
    source.restart_at(10)
    source.roll(30, WALL_MS)
    source.high_watermark = source.log_end_offset = 30
    source.log_start_offset = 10
    name = future_directory("t", 0, bytes(16))
    copy = Copy(source, log_dirs.online[1].create_future(source, name))
    copy.skip_to_end(WALL_MS)
    assert copy.future.log_start_offset < copy.future.segments.first_offset == 30
    log_dirs.online[1].checkpoint_plan().run()
    log_dirs.abandon()
    with caplog.at_level(logging.ERROR):
        log_dirs = opened(tmp_path)
    assert not caplog.messages
    found = log_dirs.find_future("t", 0)
    assert found is not None
    loaded = found[1].loaded
    assert loaded is not None
    assert loaded.gap_offset is None
    log_dirs.abandon()


def test_a_copy_is_begun_anew_if_the_log_was_cut_before_a_restart(tmp_path: Path) -> None:
    """It has grown longer than the copy since, so that their ends tell nothing."""
    log_dirs = opened(tmp_path)
    log = log_dirs.first.create_log("t", 0, topic_id=bytes(16), config=SMALL)
    for number in range(6):
        append_values(log, b"%d" % number)
    _, other = log_dirs.online
    future = other.create_future(log, future_directory("t", 0, b"f" * 16))
    copy_all(Copy(log, future))
    log.truncate(3)
    for number in range(5):
        append_values(log, b"later %d" % number, leader_epoch=1)
    log_dirs.close()
    log_dirs = opened(tmp_path)
    found = log_dirs.find_future("t", 0)
    assert found is not None
    copy = Copy(served(log_dirs), found[1])
    copy_all(copy)
    assert contents(copy.future) == contents(copy.source)
    log_dirs.abandon()


def test_a_copy_starts_where_the_old_log_has_come_to_start(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path)
    copy = copied(log_dirs)
    copy.source.advance_log_start(5)
    go_on(copy)
    assert copy.future.log_start_offset == 5
    log_dirs.abandon()


def test_a_full_disk_lets_a_move_go_on_whose_old_log_starts_later(tmp_path: Path) -> None:
    with_log(tmp_path, "a", 5)
    log_dirs = opened(tmp_path, "a")
    served(log_dirs).high_watermark = 5
    served(log_dirs).advance_log_start(3)
    log_dirs.close()
    with_log(tmp_path, "b", 5, marked=True)
    files = FullFiles()
    files.full_for = "b/log-start-offset-checkpoint"
    log_dirs = opened(tmp_path, files=files)
    assert served(log_dirs).directory == f"{tmp_path}/a/t-0"
    assert served(log_dirs).log_start_offset == 3
    assert log_dirs.find_future("t", 0) is not None
    log_dirs.abandon()
    log_dirs = opened(tmp_path)
    assert served(log_dirs).log_start_offset == 3, "whatever the full disk kept"
    log_dirs.abandon()


def test_a_marker_is_there_until_it_is_taken_away(tmp_path: Path) -> None:
    log_dirs = opened(tmp_path)
    copy = copied(log_dirs)
    copy.mark()
    assert (Path(copy.future.directory) / MARKER).exists()
    copy.unmark()
    assert not (Path(copy.future.directory) / MARKER).exists()
    log_dirs.abandon()


def test_a_marker_stays_while_the_other_directory_is_away(tmp_path: Path) -> None:
    """It tells what to do with the old log when that comes back."""
    with_log(tmp_path, "b", 5, marked=True)
    opened(tmp_path, "b").close()
    assert (tmp_path / "b/t-0" / MARKER).exists()


class NoUnlink(UnsyncedFileSystem):
    """A disk on which the marker can't be removed."""

    def unlink(self, path: str) -> None:
        if path.endswith(MARKER):
            fail(path, OSError(5, "Input/output error"))
        super().unlink(path)


def test_a_move_that_cannot_be_ended_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    with_log(tmp_path, "a", 5)
    with_log(tmp_path, "b", 5, marked=True)
    with pytest.raises(DataDirError, match="a move of a replica can't be ended"):
        opened(tmp_path, files=NoUnlink())
