"""Compaction on a running broker: when it runs, what it is told, what may come in between."""

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final

import pytest

from odradek.broker.config import load_config
from odradek.broker.core.log_uses import Use
from odradek.broker.jobs import InlineJobs, JobFailed, OnProgress
from odradek.broker.maintenance.cleaner import PAUSE_MS_MIN, Cleaner, job_arguments
from odradek.broker.maintenance.retention import Retention
from odradek.protocol.messages.k20_delete_topics import DeleteTopicsResponse
from odradek.protocol.records import Record, build_batch
from odradek.storage.errors import CorruptLog, DiskFull, StorageError
from odradek.storage.jobs import Result
from odradek.storage.log.checkpoint import CLEANER, RECOVERY_POINT, read_offsets
from odradek.storage.log.log import Log
from odradek.storage.upkeep.cleanable import cleanable
from odradek.storage.upkeep.swap import Swap
from tests.support.awaiting import pass_over, until
from tests.support.client import Client
from tests.support.messages import records_in

from ..partitions.test_replicas import until_deleted
from ..requests import delete_topics
from ..running import RunningBroker, on_broker

COMPACTED: Final = {"cleanup.policy": "compact", "segment.bytes": "1000"}
IDLE: Final = {"log.cleaner.backoff.ms": "1000000000"}  # after the first round, before any topic
BUSY: Final = {"log.cleaner.backoff.ms": "0"}
RECORDS: Final = 60
KEYS: Final = 5


class HeldJobs:
    """Jobs that begin when they are told to, or fail."""

    def __init__(self, broker: RunningBroker) -> None:
        self._inline = InlineJobs(broker.files, broker._runtime.offload)
        self.begun: list[Mapping[str, Any]] = []
        self.running: list[str] = []
        self.twice = False
        """Whether two of one log ran at once."""
        self.go = asyncio.Event()
        self.error: StorageError | None = None
        broker._runtime.jobs = self

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        assert name == "clean"
        self.begun.append(arguments)
        self.running.append(arguments["directory"])
        self.twice |= len(set(self.running)) < len(self.running)
        try:
            await self.go.wait()
            if self.error is not None:
                raise self.error
            return await self._inline(name, arguments, on_progress)
        finally:
            self.running.remove(arguments["directory"])


async def compacted(broker: RunningBroker, topic: str = "t", **configs: str) -> Client:
    """A topic with much to compact."""
    client = await broker.client()
    await client.create_topic(topic, configs={**COMPACTED, **configs})
    await fill(client, topic)
    return client


async def fill(client: Client, topic: str, count: int = RECORDS) -> None:
    for number in range(count):
        key = b"k%d" % (number % KEYS)
        value = b"%s=%d=%s" % (key, number, b"x" * 50)
        await client.append(topic, build_batch([Record(0, 1_000_000, key, value)]))


def log_of(broker: RunningBroker, topic: str = "t") -> Log:
    return broker.node.replicas.partitions[topic, 0].log


def cleaner_of(broker: RunningBroker) -> Cleaner:
    """Another one, which only does what the test calls."""
    return Cleaner(broker.node.replicas, broker.config, broker._runtime)


async def clean_once(cleaner: Cleaner) -> bool:
    """One compaction, as a round does it; whether there was one to do."""
    found = await cleaner.filthiest()
    if found is not None:
        cleaner._replicas.uses.begin(found.log, Use.COMPACTS)
        await cleaner._clean_and_tell(found)
    return found is not None


async def newest(client: Client, topic: str = "t") -> dict[bytes, tuple[int, int]]:
    """Offset and number of the newest record of each key; every one can be read."""
    found, offset = {}, 0
    while data := (await client.fetch(topic, offset)).records:
        for position, value in records_in(data):
            key, number, _ = value.split(b"=")
            found[key] = position, int(number)
            offset = position + 1
    return found


EXPECTED: Final = {b"k%d" % (n % KEYS): (n, n) for n in range(RECORDS - KEYS, RECORDS)}


def leftovers(log: Log) -> list[str]:
    return [p.name for p in Path(log.directory).iterdir() if p.suffix in (".cleaned", ".swap")]


@pytest.mark.slow
@on_broker(
    {**IDLE, "odradek.flush.ms": "1000000000", "log.flush.offset.checkpoint.interval.ms": "60000"},
    both=False,
)
async def test_what_is_replaced_is_not_scanned_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start would miss what was left out, were the topic not compacted any more by then."""
    await compacted(broker)
    ends, recovery_points = [], []
    begin = Swap.begin

    def note(self: Swap) -> None:
        path = str(Path(log_of(broker).directory).parent / RECOVERY_POINT)
        recovery_points.append((read_offsets(broker.files, path) or {}).get(("t", 0), 0))
        ends.append(log_of(broker).segments.active.base_offset)
        begin(self)

    monkeypatch.setattr(Swap, "begin", note)
    assert await clean_once(cleaner_of(broker))
    assert ends
    assert all(point >= end for point, end in zip(recovery_points, ends, strict=True))


@pytest.mark.slow
@on_broker(BUSY, both=False)
async def test_a_log_is_compacted_in_a_process_of_its_own(broker: RunningBroker) -> None:
    client = await compacted(broker, **{"min.cleanable.dirty.ratio": "0"})
    log = log_of(broker)
    await until(lambda: log.cleaner_offset == log.segments.active.base_offset)
    assert await newest(client) == EXPECTED
    assert log.size_bytes < 2500
    path = f"{broker.data_dir}/{CLEANER}"
    offset = log.cleaner_offset
    await until(lambda: read_offsets(broker.files, path) == {("t", 0): offset})
    assert not leftovers(log)


@on_broker(IDLE, both=False)
async def test_old_files_are_unlinked_after_a_delay(broker: RunningBroker) -> None:
    client = await compacted(broker, **{"file.delete.delay.ms": "60000"})
    HeldJobs(broker).go.set()
    log = log_of(broker)
    count = len(log.segments)
    assert await clean_once(cleaner_of(broker))
    assert log.size_bytes < 2500

    def deleted() -> list[Path]:
        return list(Path(log.directory).glob("*.deleted"))

    assert len(deleted()) == 3 * (count - 1)
    broker.clock.moved_ms += 60_000
    broker.node.replicas.deletions._added.set()  # looks at the clock again
    await until(lambda: not deleted())
    assert await newest(client) == EXPECTED


@on_broker(IDLE, both=False)
async def test_settings_decide_at_each_round(broker: RunningBroker) -> None:
    await compacted(broker)
    log, cleaner = log_of(broker), cleaner_of(broker)
    assert await cleaner.filthiest() is not None
    broker.node.replicas.set_overrides("t", {**COMPACTED, "min.cleanable.dirty.ratio": "1"})
    assert await cleaner.filthiest() is None
    broker.node.replicas.set_overrides("t", {**COMPACTED, "cleanup.policy": "compact,delete"})
    assert await cleaner.filthiest() is not None
    broker.node.replicas.set_overrides("t", {**COMPACTED, "cleanup.policy": "delete"})
    assert await cleaner.filthiest() is None
    assert log.cleaner_offset is None


@pytest.mark.slow
@pytest.mark.parametrize(("threads", "at_once"), [("1", 1), ("2", 2), ("5", 3)])
def test_so_many_at_once_and_never_two_of_one_log(
    tmp_path: Path, threads: str, at_once: int
) -> None:
    @on_broker({**BUSY, "log.cleaner.threads": threads}, both=False)
    async def test(broker: RunningBroker) -> None:
        jobs = HeldJobs(broker)
        for topic in ("t", "u", "v"):
            await compacted(broker, topic)
        await until(lambda: len(jobs.begun) == at_once)
        await pass_over(PAUSE_MS_MIN / 1000)
        assert len(jobs.begun) == at_once
        jobs.go.set()
        cleaned = [log_of(broker, topic) for topic in ("t", "u", "v")]
        await until(lambda: all(log.cleaner_offset for log in cleaned))
        assert not jobs.twice

    test(tmp_path)


@on_broker({**BUSY, "log.cleaner.enable": "false"}, both=False)
async def test_it_can_be_switched_off(broker: RunningBroker) -> None:
    jobs = HeldJobs(broker)
    await compacted(broker)
    await pass_over(PAUSE_MS_MIN / 1000)
    assert jobs.begun == []


@on_broker(IDLE, both=False)
async def test_a_job_that_died_is_tried_again_after_a_pause(broker: RunningBroker) -> None:
    client = await compacted(broker)
    jobs, cleaner = HeldJobs(broker), cleaner_of(broker)
    jobs.error = JobFailed("killed")
    jobs.go.set()
    broker.config.log_cleaner_backoff_ms = 60_000
    assert await clean_once(cleaner)
    assert not await clean_once(cleaner)
    broker.clock.moved_ms += 60_001
    jobs.error = None
    assert await clean_once(cleaner)
    assert await newest(client) == EXPECTED


@on_broker(IDLE, both=False)
async def test_a_log_that_cannot_be_read_is_named_and_left_alone(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    for topic in ("t", "u"):
        await compacted(broker, topic)
    jobs, cleaner = HeldJobs(broker), cleaner_of(broker)
    jobs.error = CorruptLog("segment 0: position 7")
    jobs.go.set()
    with caplog.at_level(logging.WARNING):
        assert await clean_once(cleaner)
    assert "not tried again" in caplog.text
    assert "position 7" in caplog.text
    jobs.error = None
    assert await clean_once(cleaner)
    assert not await clean_once(cleaner)
    assert len({arguments["directory"] for arguments in jobs.begun}) == 2
    broker.clock.moved_ms += 1 << 40
    assert not await clean_once(cleaner)


@on_broker(IDLE, both=False)
async def test_no_progress_is_not_tried_for_ever(broker: RunningBroker) -> None:
    await compacted(broker)
    cleaner = cleaner_of(broker)

    async def nothing_done(
        name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        return {"end_offset": 0, "segments": [], "statistics": {}}

    broker._runtime.jobs = nothing_done
    assert await clean_once(cleaner)
    assert not await clean_once(cleaner)


@on_broker(IDLE, both=False)
async def test_a_full_disk_costs_nothing(broker: RunningBroker) -> None:
    client = await compacted(broker)
    jobs, cleaner = HeldJobs(broker), cleaner_of(broker)
    jobs.error = DiskFull("no space", log_of(broker).directory)
    jobs.go.set()
    assert await clean_once(cleaner)
    assert not broker.node.replicas.is_offline
    assert await newest(client) == EXPECTED


@pytest.mark.slow
@on_broker(IDLE, both=False)
async def test_a_topic_that_is_deleted_meanwhile(broker: RunningBroker) -> None:
    client = await compacted(broker)
    jobs, cleaner, log = HeldJobs(broker), cleaner_of(broker), log_of(broker)
    cleaning = asyncio.create_task(clean_once(cleaner))
    await until(lambda: jobs.begun)
    await client.ask(delete_topics(6, "t"), 6)
    await cleaning  # given up, as the files are gone
    await until_deleted(broker, "t")
    assert not broker.files.exists(log.directory)
    jobs.go.set()
    assert not broker.node.replicas.is_offline
    await compacted(broker)
    jobs.error = None
    assert await clean_once(cleaner)
    assert await newest(client) == EXPECTED


@on_broker(IDLE, both=False)
async def test_a_new_topic_does_not_inherit_what_was_compacted(broker: RunningBroker) -> None:
    client = await compacted(broker)
    HeldJobs(broker).go.set()
    await clean_once(cleaner_of(broker))
    path = f"{broker.data_dir}/{CLEANER}"
    assert read_offsets(broker.files, path) == {("t", 0): log_of(broker).cleaner_offset}
    await client.ask(delete_topics(6, "t"), 6)
    await until(lambda: read_offsets(broker.files, path) == {})
    assert broker.files.read_bytes(path) == b"0\n0\n"  # as Kafka


@on_broker(IDLE, both=False)
async def test_what_is_deleted_between_the_steps_of_a_swap(broker: RunningBroker) -> None:
    client = await compacted(broker)
    HeldJobs(broker).go.set()
    cleaner = cleaner_of(broker)
    renamed: list[str] = []
    deleting: list[Future[DeleteTopicsResponse]] = []
    rename = broker.files.rename

    def rename_and_delete(path: str, new_path: str) -> None:
        rename(path, new_path)
        renamed.append(path)
        if new_path.endswith(".log.swap") and not deleting:
            asking = client.ask(delete_topics(6, "t"), 6)
            deleting.append(asyncio.run_coroutine_threadsafe(asking, loop))

    loop = asyncio.get_running_loop()
    broker.files.rename = rename_and_delete  # type: ignore[method-assign]
    await clean_once(cleaner)
    assert renamed
    await asyncio.wrap_future(deleting[0])
    await until_deleted(broker, "t")
    assert not broker.node.replicas.is_offline


@on_broker(IDLE, both=False)
async def test_a_log_that_is_cut_meanwhile(broker: RunningBroker) -> None:
    client = await compacted(broker)
    jobs, cleaner, log = HeldJobs(broker), cleaner_of(broker), log_of(broker)
    cleaning = asyncio.create_task(clean_once(cleaner))
    await until(lambda: jobs.begun)
    log.truncate(12)
    jobs.go.set()
    await cleaning
    assert log.cleaner_offset is None
    assert not [name for name in leftovers(log) if name.endswith(".swap")]
    assert max(offset for offset, _ in (await newest(client)).values()) == 11


@on_broker(IDLE, both=False)
async def test_retention_leaves_a_log_alone_while_it_is_compacted(broker: RunningBroker) -> None:
    policy = {"cleanup.policy": "compact,delete", "retention.ms": "1000"}
    await compacted(broker, **policy)
    jobs, cleaner, log = HeldJobs(broker), cleaner_of(broker), log_of(broker)
    retention = Retention(broker.node.replicas, broker.config, broker._runtime)
    cleaning = asyncio.create_task(clean_once(cleaner))
    await until(lambda: jobs.begun)
    await retention.check()
    assert log.log_start_offset == 0
    jobs.go.set()
    await cleaning
    assert log.cleaner_offset
    await retention.check()
    assert log.log_start_offset == RECORDS


@pytest.mark.slow
@on_broker(BUSY, both=False)
async def test_a_stop_ends_what_runs(broker: RunningBroker) -> None:
    jobs = HeldJobs(broker)
    await compacted(broker)
    await until(lambda: jobs.begun)  # and `running` looks for what is left


@on_broker({}, both=False)
async def test_the_threads_share_what_there_is(broker: RunningBroker) -> None:
    await compacted(broker)
    found = cleanable(log_of(broker), 1 << 40)
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.cleaner.threads": "4",
        "log.cleaner.dedupe.buffer.size": str(8 << 20),
        "log.cleaner.io.buffer.size": "8000",
        "log.cleaner.io.max.bytes.per.second": "100",
    }
    told = job_arguments(found, load_config(overrides=settings), 5)
    assert told["map_bytes"] == 2 << 20
    assert told["io_buffer_bytes"] == 1000
    assert told["io_bytes_per_second"] == 25
    assert job_arguments(found, broker.config, 5)["io_bytes_per_second"] is None
    assert [s["next_offset"] for s in told["segments"]] == [
        *(s["base_offset"] for s in told["segments"][1:]),
        found.end_offset,
    ]


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".cleaned", ".swap", ".log", ".index"])
def test_a_disk_that_is_full_at_a_rename(tmp_path: Path, suffix: str) -> None:
    """The first rename of each kind fails once."""

    @on_broker(IDLE, both=False)
    async def test(broker: RunningBroker) -> None:
        client = await compacted(broker)
        HeldJobs(broker).go.set()
        cleaner = cleaner_of(broker)
        failed: list[str] = []
        rename = broker.files.rename

        def refuse_once(path: str, new_path: str) -> None:
            if path.endswith(suffix) and not failed:
                failed.append(path)
                raise DiskFull("no space", path)
            rename(path, new_path)

        broker.files.rename = refuse_once  # type: ignore[method-assign]
        assert await clean_once(cleaner)
        assert failed
        broker.clock.moved_ms += 1 << 40
        await clean_once(cleaner)
        assert log_of(broker).cleaner_offset
        assert await newest(client) == EXPECTED
        assert not leftovers(log_of(broker))
        assert not broker.node.replicas.is_offline

    test(tmp_path)
