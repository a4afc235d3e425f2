"""A disk that is only looked at."""

from pathlib import Path

import pytest

from odradek.storage.errors import DataDirError
from odradek.storage.files import RealFileSystem
from odradek.storage.inspect.read_only import ReadOnlyFileSystem
from tests.support.descriptors import open_below


def test_a_lock_that_a_broker_holds_leaves_nothing_open(tmp_path: Path) -> None:
    path = str(tmp_path / ".lock")
    held = RealFileSystem().lock(path)
    with pytest.raises(DataDirError, match="a broker is running"):
        ReadOnlyFileSystem().lock(path)
    assert open_below(tmp_path) == [path]
    held.release()
