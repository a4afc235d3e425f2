"""Which replicas may lack records that they once had, as it is noted beside the logs."""

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.directory.suspicion import BOOT_NOTE, BootNote
from odradek.storage.errors import DiskFull
from odradek.storage.log.checkpoint import CLEAN_SHUTDOWN
from odradek.storage.log.log_config import LogConfig

from ..support import SMALL, WALL_MS, UnsyncedFileSystem, append_values

T0, U0 = ("t", 0), ("u", 0)


class FullDisk(UnsyncedFileSystem):
    """Has no room for notes."""

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:  # type: ignore[override]
        if path.endswith(BOOT_NOTE):
            raise DiskFull("no space left", path)
        super().write_atomic(path, data, sync=sync)


def opened(
    path: Path,
    boot_id: str | None,
    *names: str,
    files: UnsyncedFileSystem | None = None,
) -> LogDirs:
    paths = [str(path / name) for name in names or ("a",)]
    log_dirs = LogDirs.lock(paths, files or UnsyncedFileSystem(), boot_id=boot_id)
    log_dirs.identify(1, "cluster")
    log_dirs.load(lambda topic: LogConfig(), WALL_MS)
    return log_dirs


def crashed(path: Path, boot_id: str | None, *names: str) -> set[tuple[str, int]]:
    """Start and end as kill -9 would; who was suspect."""
    log_dirs = opened(path, boot_id, *names)
    found = suspects(log_dirs)
    log_dirs.abandon()
    return found


def suspects(log_dirs: LogDirs) -> set[tuple[str, int]]:
    return {key for key in (T0, U0) if log_dirs.is_suspect(key)}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """In `a` are t-0 and u-0, written in the boot `one`; the broker was killed."""
    log_dirs = opened(tmp_path, "one")
    for topic in "tu":
        log = log_dirs.first.create_log(topic, 0, topic_id=bytes(16), config=SMALL)
        for number in range(5):
            append_values(log, b"%d" % number)
        log.high_watermark = 5
    log_dirs.first.checkpoint()
    log_dirs.abandon()
    yield tmp_path


def note(path: Path, name: str = "a") -> BootNote:
    return BootNote.parse((path / name / BOOT_NOTE).read_bytes())


def test_a_kill_makes_nobody_suspect(path: Path) -> None:
    assert crashed(path, "one") == set()
    assert crashed(path, "one") == set()
    assert note(path) == BootNote("one")


def test_another_boot_makes_all_suspect_until_they_are_cleared(path: Path) -> None:
    assert crashed(path, "two") == {T0, U0}
    assert note(path) == BootNote("two", frozenset({T0, U0}))
    assert crashed(path, "two") == {T0, U0}
    log_dirs = opened(path, "two")
    log_dirs.first.suspicion.suspects.discard(T0)
    log_dirs.close()  # a clean stop clears nothing else
    assert crashed(path, "three") == {U0}, "the stop was clean"
    assert crashed(path, "four") == {T0, U0}


def test_a_clean_stop_before_the_machine_went_down(path: Path) -> None:
    opened(path, "one").close()
    assert crashed(path, "two") == set()
    assert crashed(path, "two") == set(), "a kill right after the start is no other boot"


def test_a_kill_between_the_note_and_the_loading(path: Path) -> None:
    opened(path, "one").close()
    data_dir = DataDir.lock(str(path / "a"), UnsyncedFileSystem(), "two")
    data_dir.begin_loading()
    data_dir.abandon()
    assert not (path / "a" / CLEAN_SHUTDOWN).exists()
    assert crashed(path, "two") == set()
    assert crashed(path, "three") == {T0, U0}


def test_without_a_boot_id_only_what_is_missing_counts(path: Path) -> None:
    assert crashed(path, None) == set()
    assert note(path) == BootNote("one"), "there may be one again"
    cut(path, 3)
    assert crashed(path, None) == {T0}
    assert crashed(path, None) == {T0}


def test_a_log_that_ends_below_its_high_watermark_is_suspect(path: Path) -> None:
    cut(path, 3)
    assert crashed(path, "one") == {T0}
    log_dirs = opened(path, "one")
    assert suspects(log_dirs) == {T0}
    log_dirs.close()
    assert crashed(path, "one") == {T0}
    assert note(path) == BootNote("one", frozenset({T0}))


def test_a_system_without_boot_ids_gets_no_note(tmp_path: Path) -> None:
    opened(tmp_path, None).close()
    opened(tmp_path, None).close()
    assert not (tmp_path / "a" / BOOT_NOTE).exists()


def test_each_directory_has_its_own(path: Path) -> None:
    other = opened(path, "two", "b")
    other.first.create_log("v", 0, topic_id=bytes(16), config=SMALL)
    other.abandon()
    log_dirs = opened(path, "two", "a", "b")
    assert suspects(log_dirs) == {T0, U0}
    assert not log_dirs.is_suspect(("v", 0))
    log_dirs.abandon()


def test_suspicion_follows_a_replica_that_moves(path: Path) -> None:
    crashed(path, "two", "a", "b")
    log_dirs = opened(path, "two", "a", "b")
    a, b = log_dirs.online
    b.logs[T0] = a.logs.pop(T0)  # as at the end of a move
    log_dirs.settle_suspicion()
    assert (a.suspicion.suspects, b.suspicion.suspects) == ({U0}, {T0})
    assert suspects(log_dirs) == {T0, U0}
    log_dirs.abandon()


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 40, b"0\n3\none\n", b"0\n2\none\nt zero\n", b"1\n1\none\n"]
)
def test_a_damaged_note_makes_all_suspect(path: Path, data: bytes) -> None:
    (path / "a" / BOOT_NOTE).write_bytes(data)
    assert crashed(path, "one") == {T0, U0}
    assert crashed(path, "one") == {T0, U0}


def test_a_full_disk_is_no_hindrance(path: Path) -> None:
    log_dirs = opened(path, "two", files=FullDisk())
    assert suspects(log_dirs) == {T0, U0}
    log_dirs.abandon()
    assert note(path) == BootNote("one")
    assert crashed(path, "two") == {T0, U0}


def cut(path: Path, count: int) -> None:
    """Take the last batches of t-0 away, so that so many are left."""
    segment = path / "a" / "t-0" / f"{0:020d}.log"
    data, position = segment.read_bytes(), 0
    for _ in range(count):
        position += 12 + struct.unpack_from(">i", data, position + 8)[0]
    segment.write_bytes(data[:position])


def test_tools_know_the_note(path: Path) -> None:
    opened(path, "one").close()
    done = CliRunner().invoke(main, ["log", "verify", str(path / "a")])
    assert (done.exit_code, BOOT_NOTE in done.output) == (0, False), done.output
