"""A clean stop: what threads do side by side must all be done before the marker is written."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

from odradek.broker.partitions.closing import close_log_dirs
from odradek.broker.runtime import ThreadOffload
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import LogDirFailed
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_config import LogConfig
from tests.storage.support import WALL_MS, append, batch_of
from tests.support.descriptors import open_below

MARKER = ".kafka_cleanshutdown"
PARTITIONS = 300  # more than are closed at once


class NotedFiles(RealFileSystem):
    """Notes what was synced and by which threads; fails where it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []
        self.threads: set[int] = set()
        self.fails_at = ""

    def fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self.synced.append(path)
        self.threads.add(threading.get_ident())
        if self.fails_at and path.endswith(self.fails_at):
            raise OSError(5, "Input/output error")


def opened(path: Path, files: RealFileSystem) -> LogDirs:
    dirs = LogDirs.lock([str(path)], files)
    dirs.identify(1, "c" * 22)
    dirs.load(lambda topic: LogConfig(), WALL_MS)
    return dirs


def closed(dirs: LogDirs) -> None:
    offload = ThreadOffload("test", threads_max=4)
    try:
        asyncio.run(close_log_dirs(dirs, offload))
    finally:
        offload.close()


def filled(path: Path, files: RealFileSystem) -> LogDirs:
    dirs = opened(path, files)
    for partition in range(PARTITIONS):
        log = dirs.first.create_log("t", partition, topic_id=bytes(16), config=LogConfig())
        append(log, batch_of([b"a"]))
    return dirs


@pytest.mark.slow
def test_all_logs_are_synced_before_the_checkpoints_and_the_marker(tmp_path: Path) -> None:
    files = NotedFiles()
    dirs = filled(tmp_path, files)
    files.synced.clear()
    closed(dirs)
    assert len(files.threads) > 1
    last = max(n for n, path in enumerate(files.synced) if path.startswith(f"{tmp_path}/t-"))
    later = [Path(path).name for path in files.synced[last + 1 :]]
    assert "recovery-point-offset-checkpoint.tmp" in later
    assert later[-2:] == [f"{MARKER}.tmp", tmp_path.name]
    for partition in range(PARTITIONS):
        assert f"{tmp_path}/t-{partition}/{0:020d}.log" in files.synced
        assert f"{tmp_path}/t-{partition}" in files.synced
    again = opened(tmp_path, RealFileSystem())
    assert again.first.was_clean
    loaded = [(log.loaded, log.log_end_offset) for log in again.all_logs()]
    assert loaded == [(None, 1)] * PARTITIONS
    again.abandon()


@pytest.mark.slow
def test_one_failed_fsync_leaves_no_marker_and_no_descriptor(tmp_path: Path) -> None:
    files = NotedFiles()
    dirs = filled(tmp_path, files)
    files.fails_at = f"t-77/{0:020d}.log"
    with pytest.raises(LogDirFailed, match="t-77"):
        closed(dirs)
    assert not (tmp_path / MARKER).exists()
    assert open_below(tmp_path) == []
    again = opened(tmp_path, RealFileSystem())  # the lock was given back
    assert not again.first.was_clean
    again.abandon()


def test_the_first_flush_after_a_clean_stop_makes_the_files_of_an_empty_log_safe(
    tmp_path: Path,
) -> None:
    dirs = opened(tmp_path, RealFileSystem())
    dirs.first.create_log("t", 0, topic_id=bytes(16), config=LogConfig())
    closed(dirs)
    files = NotedFiles()
    again = opened(tmp_path, files)
    log = again.first.logs["t", 0]
    append(log, batch_of([b"a"]))
    plan = log.flush_plan()
    assert plan is not None
    plan.run()
    log.flushed(plan)
    assert f"{tmp_path}/t-0" in files.synced
    again.abandon()
