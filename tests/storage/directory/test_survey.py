"""A look at a data directory leaves nothing open."""

from pathlib import Path

from odradek.storage.directory.survey import batches
from tests.support.descriptors import open_below

from ..support import SMALL, append_values, new_log


def test_segments_are_closed_behind_the_look(tmp_path: Path) -> None:
    log = new_log(tmp_path, SMALL)
    for _ in range(30):
        append_values(log, b"x" * 100)
    log.close()
    assert len(list(batches(log.files, log.directory))) == 30
    assert len(log.segments) > 1
    assert open_below(tmp_path) == []
