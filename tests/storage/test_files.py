"""The machine's own disk: descriptors and locks."""

import errno
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from odradek.storage.errors import LogDirFailed
from odradek.storage.files import RealFileSystem


def test_as_many_files_stay_open_as_may(tmp_path: Path) -> None:
    files = RealFileSystem(open_files_max=2)
    paths = [str(tmp_path / name) for name in "abc"]
    for path in paths:
        files.create(path)
    logs = [files.open_log(path, 0) for path in paths]
    assert len({log.descriptor() for log in logs}) == 2
    for log in logs:
        log.close()


def test_a_closed_file_stays_open_while_it_is_referred_to(tmp_path: Path) -> None:
    files = RealFileSystem()
    files.create(str(tmp_path / "a"))
    file = files.open_log(str(tmp_path / "a"), 0)
    descriptor = file.descriptor()
    file.ref()
    file.ref()
    file.close()
    file.unref()
    os.fstat(descriptor)
    file.unref()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_lock_that_fails_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network's file system may know no locks."""

    def without_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", without_locks)
    with pytest.raises(LogDirFailed, match="No locks available"):
        RealFileSystem().lock(str(tmp_path / ".lock"))


def test_a_lock_can_be_descriptor_0(tmp_path: Path) -> None:
    """As it is in a process without standard input."""
    locks = (
        "import os, sys; os.close(0); from odradek.storage.files import RealFileSystem\n"
        "lock = RealFileSystem().lock(sys.argv[1]); os.fstat(0); lock.release()\n"
        "RealFileSystem().lock(sys.argv[1]).release()"
    )
    subprocess.run([sys.executable, "-c", locks, str(tmp_path / ".lock")], check=True)
