"""Long tails are recovered by processes; what they can't do is done while loading."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.jobs import ChildJobs, InlineJobs, JobFailed, OnProgress
from odradek.broker.metrics.counters import PARTITIONS_RECOVERED
from odradek.broker.partitions import startup
from odradek.broker.runtime import DaemonOffload
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.jobs import Result
from odradek.storage.log.log_config import LogConfig
from tests.storage.support import UnsyncedFileSystem, append_values, contents

from ..running import make_broker, running

pytestmark = pytest.mark.wire

PARTITIONS = 5
RECORDS = 300
CLUSTER_ID = "abcdefghijklmnopqrstuv"


@pytest.fixture(autouse=True)
def everything_is_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "WORTH_BYTES", 1)
    monkeypatch.setattr(startup, "PARTITION_BYTES_MIN", 1)
    monkeypatch.setattr(startup, "JOB_BYTES", 30_000)  # two partitions


def opened(path: Path) -> DataDir:
    data_dir = DataDir.lock(str(path), UnsyncedFileSystem())
    data_dir.identify(1, CLUSTER_ID)
    return data_dir


def killed(path: Path) -> None:
    """A directory of some partitions whose process is gone; one of them is damaged."""
    data_dir = opened(path)
    data_dir.load(lambda topic: LogConfig(), 0)
    for partition in range(PARTITIONS):
        config = LogConfig(segment_bytes=4000)
        log = data_dir.create_log("t", partition, topic_id=bytes(16), config=config)
        for number in range(RECORDS):
            append_values(log, b"%d" % number)
        log.high_watermark = RECORDS
    data_dir.checkpoint()
    data_dir.abandon()
    segment = path / "t-3" / f"{0:020d}.log"
    data = bytearray(segment.read_bytes())
    data[1000] ^= 1
    segment.write_bytes(data)


class CountedJobs:
    """Child processes, some of which fail."""

    def __init__(self, fails: int = 0) -> None:
        self._jobs = ChildJobs(DaemonOffload("jobs"))
        self._fails = fails
        self.names: list[str] = []
        self.running = self.running_max = 0
        self.done_bytes: list[int] = []

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        self.names.append(name)
        if len(self.names) <= self._fails:
            raise JobFailed("the process was killed")
        self.running += 1
        self.running_max = max(self.running, self.running_max)
        try:
            return await self._jobs(name, arguments, on_progress)
        finally:
            self.running -= 1


def recover(path: Path, jobs: CountedJobs) -> DataDir:
    _, runtime = make_broker(path)
    runtime.jobs = jobs
    data_dir = opened(path)

    def config_of(topic: str) -> LogConfig:
        return LogConfig(segment_bytes=4000)

    work = startup.Recovery(config_of, runtime, jobs_max=2)
    asyncio.run(work.run([data_dir]))
    data_dir.load(config_of, 0)
    runtime.close()
    return data_dir


@pytest.mark.parametrize("fails", [0, 1, 3])
def test_partitions_are_recovered_by_processes(
    tmp_path: Path, fails: int, caplog: pytest.LogCaptureFixture
) -> None:
    killed(tmp_path)
    jobs = CountedJobs(fails)
    data_dir = recover(tmp_path, jobs)
    assert len(jobs.names) >= 3
    assert jobs.running_max <= 2
    for (_, partition), log in data_dir.logs.items():
        report = log.loaded
        assert report is not None
        assert report.is_recovered
        if partition == 3:
            assert log.log_end_offset < 20
            assert report.lost_committed == RECORDS - log.log_end_offset
            assert report.set_aside_bytes > 3000
        else:
            assert len(contents(log)) == RECORDS
            assert report.lost_committed == report.bad_batches == 0
    assert len(data_dir.logs) == PARTITIONS
    assert "committed records are lost" in caplog.text  # also if a process has found out
    data_dir.close()


def test_a_broker_recovers_by_processes_and_counts(tmp_path: Path) -> None:
    async def main() -> None:
        data = tmp_path / "data"
        async with running(tmp_path) as broker:
            cluster_id = broker.node.metadata.cluster_id
        data_dir = DataDir.lock(str(data), UnsyncedFileSystem())
        data_dir.identify(broker.broker_id, cluster_id)
        data_dir.load(lambda topic: LogConfig(), 0)
        log = data_dir.create_log("x", 0, topic_id=bytes(16), config=LogConfig())
        for number in range(50):
            append_values(log, b"%d" % number)
        data_dir.abandon()
        async with running(tmp_path) as broker:
            assert broker.node.metrics.counters[PARTITIONS_RECOVERED] == 1
            (loaded,) = broker.node.replicas.log_dirs.all_logs()
            assert loaded.log_end_offset == 50

    asyncio.run(main())


def test_inline_jobs_do_the_same(tmp_path: Path) -> None:
    killed(tmp_path)
    _, runtime = make_broker(tmp_path)
    runtime.jobs = InlineJobs(runtime.files, runtime.offload)
    data_dir = opened(tmp_path)
    work = startup.Recovery(lambda topic: LogConfig(), runtime, jobs_max=1)
    asyncio.run(work.run([data_dir]))
    assert len(data_dir.recovered) == PARTITIONS
    data_dir.load(lambda topic: LogConfig(), 0)
    assert sum(len(contents(log)) == RECORDS for log in data_dir.logs.values()) == PARTITIONS - 1
    data_dir.abandon()
    runtime.close()
