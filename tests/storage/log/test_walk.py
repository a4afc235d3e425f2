"""Walks over batch headers."""

from pathlib import Path

import pytest

from odradek.storage.errors import CorruptLog
from odradek.storage.log.walk import batch_end

from ..support import append_values, new_log


def test_no_batch_ends_where_none_begins(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    append_values(log, b"a", b"b")
    file = log.segments.active.file
    assert batch_end(file, 0, file.size_bytes) == (file.size_bytes, 2)
    with pytest.raises(CorruptLog, match="no batch at"):
        batch_end(file, file.size_bytes, file.size_bytes)
