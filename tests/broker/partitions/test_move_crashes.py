"""A move of a replica, cut short at each call of the storage layer, with and without a power cut.

What the move does to the disk is recorded; then the power is cut after each call, and of
all that had not been synced nothing, all or any part may be gone. The next start finds one replica
with all that was durable, which starts where clients were told, and the move can go on.
"""

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.broker.core.log_uses import LogUses
from odradek.broker.core.replication_quota import ReplicationQuota
from odradek.broker.core.sampled_rate import SampledRate
from odradek.broker.partitions import moves
from odradek.protocol.records import read_header
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.directory.moving import MARKER, future_directory
from odradek.storage.files import FileSystem
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from tests.seeds import seeds
from tests.storage.crash.disk import Fate, Link, Mark, RecordingFiles, crash, kept, lost, mangled
from tests.storage.crash.workload import batches_of
from tests.storage.support import WALL_MS, UnsyncedFileSystem, batch_of

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=100, file_delete_delay_ms=0)
FATES: dict[str, Fate] = {"kept": kept, "lost": lost, "mangled": mangled}


def opened(root: Path, files: FileSystem) -> LogDirs:
    log_dirs = LogDirs.lock([str(root / "a"), str(root / "b")], files)
    log_dirs.identify(1, "cluster")
    log_dirs.load(lambda topic: CONFIG, WALL_MS)
    return log_dirs


def append(log: Log, value: bytes) -> None:
    batch = batch_of([value] * 3)
    log.append(batch, read_header(batch), leader_epoch=2, wall_ms=WALL_MS)
    log.high_watermark = log.log_end_offset


def flush(log: Log) -> None:
    plan = log.flush_plan()
    if plan is not None:
        plan.run()
        log.flushed(plan)


class Replicas:
    """As much of a broker as a move meets; each offloaded call is one more turn of a writer."""

    def __init__(self, log_dirs: LogDirs, files: FileSystem) -> None:
        log = log_dirs.find("t", 0)
        assert log is not None
        self.log_dirs = log_dirs
        self.uses = LogUses()
        self.is_offline = False
        self.must_checkpoint = asyncio.Event()
        self.deletions = SimpleNamespace(add=lambda plan, delay_ms: plan.run())
        self.flushes = self
        self.logs = self
        self.partition: Any = SimpleNamespace(log=log, go_on_in=self.go_on_in, wake=lambda: None)
        self.partitions = {("t", 0): self.partition}
        self._files = files
        self._held = False
        self.turns = 0
        self.runtime: Any = SimpleNamespace(
            offload=self.offload,
            random=random.Random(1),
            clock=SimpleNamespace(wall_ms=lambda: WALL_MS, now_ms=lambda: 0),
        )

    @contextlib.asynccontextmanager
    async def hold(self, log: Log) -> AsyncIterator[None]:
        self._held = True
        yield
        self._held = False

    async def until_unused(self, log: Log) -> None:
        """Nobody else is there."""

    async def checkpoint(self, data_dir: DataDir) -> None:
        data_dir.checkpoint()

    def go_on_in(self, copy: Log) -> None:
        self.partition.log = copy

    async def offload(self, function: Any, *arguments: Any) -> Any:
        result = function(*arguments)
        self.turns += 1
        log = self.partition.log
        if self.turns % 3 == 0 and self.turns < 40:
            append(log, b"turn %d" % self.turns)
        if self.turns % 6 == 0 and not self._held:
            flush(log)
        if self.turns % 2 == 0:
            log.advance_log_start(log.log_start_offset + 1)
            self.promise()
            self.log_dirs.holding(log).checkpoint()
        self.promise()
        return result

    def promise(self) -> None:
        """Note what has to be there from now on."""
        if isinstance(self._files, RecordingFiles):
            log = self.partition.log
            durable = {o: b for o, b in batches_of(log).items() if o < log.recovery_point}
            safe_start = log.flushing.safe_start_offset(log)
            self._files.mark((durable, safe_start, log.log_start_offset))


async def move(log_dirs: LogDirs, files: FileSystem) -> Replicas:
    replicas = Replicas(log_dirs, files)
    replicas.promise()
    found = log_dirs.find_future("t", 0)
    if found is None:
        log = replicas.partition.log
        (data_dir,) = [d for d in log_dirs.online if d is not log_dirs.holding(log)]
        found = data_dir, data_dir.create_future(log, future_directory("t", 0, b"f" * 16))
    source = replicas.partition.log
    quota = ReplicationQuota(SampledRate(1, 1000), lambda: None)
    move_ = moves._Move(replicas, replicas.runtime, quota, replicas.partition, *found)  # type: ignore[arg-type]
    plan = await move_.run()
    source.abandon()
    assert plan is not None
    plan.run()
    return replicas


def recorded(root: Path) -> tuple[RecordingFiles, dict[int, bytes]]:
    """A move from its first call to its last, and all batches that there ever were."""
    root.mkdir()
    files = RecordingFiles(root)
    log_dirs = opened(root, files)
    log = log_dirs.first.create_log("t", 0, topic_id=bytes(range(16)), config=CONFIG)
    for number in range(30):
        append(log, b"%d" % number)
    flush(log)
    ever = batches_of(log)
    log.advance_log_start(4)
    log_dirs.first.checkpoint()
    files.sync_path(str(root))
    files.operations.append(Mark(None))
    replicas = asyncio.run(move(log_dirs, files))
    assert replicas.partition.log.directory == f"{root}/b/t-0"
    assert replicas.turns > 12
    ever |= batches_of(replicas.partition.log)
    log_dirs.abandon()
    return files, ever


def check(root: Path, promised: tuple[dict[int, bytes], int, int], ever: dict[int, bytes]) -> None:
    durable, safe_start, start = promised
    log_dirs = opened(root, UnsyncedFileSystem())
    try:
        logs = [d.logs["t", 0] for d in log_dirs.online if ("t", 0) in d.logs]
        assert len(logs) == 1
        found = batches_of(logs[0])
        assert safe_start <= logs[0].log_start_offset <= start
        assert {o: b for o, b in durable.items() if o >= start - 2}.items() <= found.items()
        assert {o: b for o, b in found.items() if o >= 3}.items() <= ever.items()
        for data_dir in log_dirs.online:
            for plan in data_dir.deleted_plans():
                plan.run()
        if log_dirs.find_future("t", 0) is not None:
            replicas = asyncio.run(move(log_dirs, UnsyncedFileSystem()))
            logs = [replicas.partition.log]
            start = logs[0].log_start_offset  # within a batch of three
            left = {o: b for o, b in found.items() if o >= start - 2}
            assert left.items() <= batches_of(logs[0]).items()
        names = sorted(p.name for n in "ab" for p in (root / n).iterdir() if p.is_dir())
        assert names == ["t-0"], names
        assert not (Path(logs[0].directory) / MARKER).exists()
    finally:
        log_dirs.abandon()


def run(tmp_path: Path, fate: str, *, points_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Crash after so many calls, chosen at random, and after each that follows the new name."""
    monkeypatch.setattr(moves, "SLICE_BYTES", 200)
    monkeypatch.setattr(moves, "SLICE_BYTES_MAX", 200)
    monkeypatch.setattr(moves, "FLUSH_BYTES", 1000)
    files, ever = recorded(tmp_path / "life")
    operations = files.operations
    promised: Any = None
    points = []
    for count in range(operations.index(Mark(None)) + 1, len(operations) + 1):
        last = operations[count - 1]
        if isinstance(last, Mark):
            promised = last.what or promised
        elif promised is not None:
            points.append((count, promised))
    named_at = max(n for n, each in enumerate(operations) if is_named(each))
    promises = dict(points)
    late = [count for count in promises if count > named_at]
    assert len(promises) > 60 < 2 * len(late)
    chance = random.Random(seeds(1, 1)[0])
    some = chance.sample(sorted(promises), min(points_max, len(promises)))
    for count in sorted({*some, *late}):
        target = tmp_path / f"{count}"
        target.mkdir()
        crash(operations[:count], FATES[fate], chance, target)
        check(target, promises[count], ever)
        shutil.rmtree(target)


def is_named(operation: object) -> bool:
    """Whether a log gets its name: after the first one its copy does."""
    return isinstance(operation, Link) and operation.name == "t-0"


@pytest.mark.slow
@pytest.mark.parametrize("fate", FATES)
def test_one_whole_replica_is_found(
    tmp_path: Path, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, fate, points_max=15, monkeypatch=monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("fate", FATES)
def test_one_whole_replica_is_found_after_each_call(
    tmp_path: Path, fate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(tmp_path, fate, points_max=10_000, monkeypatch=monkeypatch)
