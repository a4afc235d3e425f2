"""What is told to the disk, without a Spark; with one: test_running.py, test_archive.py."""

import errno
import os
from pathlib import Path

import pytest

from odradek.pipeline.files import _fsync


def test_a_file_system_that_cannot_sync_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = errno.EINVAL

    def fsync(descriptor: int) -> None:
        raise OSError(said, os.strerror(said))

    _fsync(tmp_path)
    _fsync(tmp_path / "gone")
    monkeypatch.setattr("os.fsync", fsync)
    _fsync(tmp_path)
    said = errno.EIO
    with pytest.raises(OSError, match="Input/output error"):
        _fsync(tmp_path)
