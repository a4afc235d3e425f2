"""A power cut takes the first segments of a log and leaves later ones: that is noticed."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.log.checkpoint import LOG_START, read_offsets
from odradek.storage.log.log import Log

from ..support import SMALL, WALL_MS, UnsyncedFileSystem, append_values, contents, flush

START = 1000
KEY = "t", 0


def opened(path: Path, *, compacts: bool = False) -> DataDir:
    config = replace(SMALL, compacts=compacts)
    files = UnsyncedFileSystem()
    return DataDir.open(
        str(path), 1, "cluster", files, config_of=lambda topic: config, wall_ms=WALL_MS
    )


def restarted(path: Path) -> tuple[DataDir, Log]:
    """A follower has begun anew where its leader's log begins, and has several segments."""
    data_dir = opened(path)
    log = data_dir.create_log(*KEY, topic_id=bytes(range(16)), config=SMALL)
    log.restart_at(START)
    while len(log.segments) < 4:
        append_values(log, b"a value")
    log.high_watermark = log.log_end_offset
    return data_dir, log


def lose_first_segment(data_dir: DataDir, log: Log) -> int:
    """Returns where the log begins then."""
    data_dir.abandon()
    for path in filter(os.path.exists, log.segments[0].paths()):
        os.unlink(path)
    return log.segments[1].base_offset


@pytest.mark.parametrize("compacts", [False, True])
def test_first_segments_that_are_missing_are_noticed(
    tmp_path: Path, compacts: bool, caplog: pytest.LogCaptureFixture
) -> None:
    data_dir, log = restarted(tmp_path)
    data_dir.checkpoint()
    first_offset = lose_first_segment(data_dir, log)
    again = opened(tmp_path, compacts=compacts)
    found = again.logs[KEY]
    assert found.log_start_offset == first_offset
    assert found.loaded is not None
    if compacts:  # there a segment may have been emptied
        assert found.loaded.gap_offset is None
        assert not again.suspicion.suspects
    else:
        assert f"segments are missing directory={found.directory} offsets={START}.." in caplog.text
        assert found.loaded.gap_offset == START
        assert found.loaded.lost_committed == first_offset - START
        assert again.suspicion.suspects == {KEY}
        assert found.truncate(START) == START, "it can begin anew where it began"
    again.abandon()


def test_a_start_is_noted_until_something_is_synced(tmp_path: Path) -> None:
    data_dir, log = restarted(tmp_path)
    path = f"{tmp_path}/{LOG_START}"
    data_dir.checkpoint()
    assert read_offsets(log.files, path) == {KEY: START}
    flush(log)
    data_dir.checkpoint()
    assert read_offsets(log.files, path) == {}
    values = contents(log)
    data_dir.abandon()
    again = opened(tmp_path)
    assert contents(again.logs[KEY]) == values
    assert not again.suspicion.suspects
    again.abandon()
