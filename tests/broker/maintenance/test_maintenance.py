"""Flushes, checkpoints and the expiry of producers, on a running broker."""

import asyncio
import errno
import threading
from pathlib import Path

import pytest

from odradek.broker.core.partition import Partition
from odradek.broker.core.replica_status import Presence
from odradek.broker.maintenance.checkpointer import Checkpointer
from odradek.broker.maintenance.flusher import Flusher
from odradek.broker.maintenance.producer_expiry import ProducerExpiry
from odradek.broker.maintenance.unmade import Unmade
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k08_offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.storage.directory.found_partition import FoundPartition, Unserved
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.checkpoint import RECOVERY_POINT, read_offsets
from odradek.storage.log.log import Log
from odradek.storage.recovery.load import LoadHints
from tests.support.awaiting import turns, until
from tests.support.messages import batch_of, records_in

from ..faulty_files import FaultyFiles
from ..requests import delete_topics
from ..running import RunningBroker, on_broker, running

NEVER = {"odradek.flush.ms": str(1 << 40), "odradek.flush.bytes": str(1 << 40)}


def partition_of(broker: RunningBroker, topic: str = "t") -> Partition:
    return broker.node.replicas.partitions[topic, 0]


def log_of(broker: RunningBroker, topic: str = "t") -> Log:
    return partition_of(broker, topic).log


def recovery_points(broker: RunningBroker) -> dict[tuple[str, int], int]:
    """As they are on disk."""
    return read_offsets(broker.files, f"{broker.data_dir}/{RECOVERY_POINT}") or {}


def flusher_of(broker: RunningBroker) -> Flusher:
    """Another one, which only does what the test calls."""
    return Flusher(broker.node.replicas, broker.config, broker._runtime)


def checkpointer_of(broker: RunningBroker) -> Checkpointer:
    """Another one, which only does what the test calls."""
    return Checkpointer(broker.node.replicas, broker.config, broker._runtime)


@pytest.mark.slow
@on_broker({**NEVER, "odradek.flush.ms": "1"}, both=False)
async def test_after_some_time_all_is_flushed_and_written_down(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for _ in range(3):
        await client.append("t", batch_of(b"a"))
    await until(lambda: recovery_points(broker) == {("t", 0): 3})
    assert log_of(broker).recovery_point == 3


@on_broker(NEVER, both=False)
async def test_with_very_many_partitions_looks_are_rarer(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t", 8)
    flusher = flusher_of(broker)
    assert flusher._check_ms() == flusher._look_ms() == 250
    monkeypatch.setattr("odradek.broker.maintenance.flusher.CHECK_MS", 3)
    monkeypatch.setattr("odradek.broker.maintenance.flusher.CHECKED_PER_MS", 2)
    assert flusher._check_ms() == flusher._look_ms() == 4
    broker.config.log_flush_scheduler_interval_ms = 1  # asked for by the operator
    assert flusher._look_ms() == 1


@pytest.mark.slow
@on_broker({**NEVER, "odradek.flush.bytes": "1000"}, both=False)
async def test_after_so_many_bytes_a_partition_is_flushed(broker: RunningBroker) -> None:
    client = await broker.client()
    for topic in ("t", "u"):
        await client.create_topic(topic)
    await client.append("t", batch_of(b"a" * 2000))
    await client.append("u", batch_of(b"a"))
    flusher = flusher_of(broker)
    assert flusher._due() in ([partition_of(broker)], [])  # or the broker was quicker
    await until(lambda: recovery_points(broker).get(("t", 0)) == 1)
    assert recovery_points(broker).get(("u", 0)) == 0


@on_broker({**NEVER, "odradek.flush.ms": "50000"}, both=False)
async def test_the_time_runs_from_the_first_append(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    flusher = flusher_of(broker)
    assert flusher._due() == []
    broker.clock.moved_ms += 30_000
    await client.append("t", batch_of(b"a"))
    assert flusher._due() == []
    broker.clock.moved_ms += 20_000
    assert flusher._due() == [partition_of(broker)]


@pytest.mark.slow
@on_broker(NEVER, both=False)
async def test_flush_ms_counts_from_the_last_flush(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", configs={"flush.ms": "5000"})
    await client.append("t", batch_of(b"a"))
    await broker.node.replicas.flushes.flush(partition_of(broker))
    flusher = flusher_of(broker)
    await client.append("t", batch_of(b"a"))
    assert flusher._due() == []
    broker.clock.moved_ms += 5000
    await until(lambda: log_of(broker).recovery_point == 2)
    broker.clock.moved_ms += 5000
    assert flusher._due() == []  # nothing new


@on_broker({**NEVER, "log.flush.scheduler.interval.ms": "60000"}, both=False)
async def test_without_flush_ms_each_look_flushes(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    flusher = flusher_of(broker)
    flusher._due()
    await client.append("t", batch_of(b"a"))
    broker.clock.moved_ms += 40_000
    assert flusher._due() == []
    broker.clock.moved_ms += 20_000
    assert flusher._due() == [partition_of(broker)]
    broker.node.replicas.set_overrides("t", {"flush.ms": str(1 << 40)})
    broker.clock.moved_ms += 60_000
    assert flusher._due() == []


@on_broker({**NEVER, "log.flush.interval.messages": "1"}, both=False)
async def test_what_groups_commit_is_durable_too(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.ask(FindCoordinatorRequest(key="g"), 3)
    topics = [
        OffsetCommitRequestTopic(
            name="__consumer_offsets",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=3)],
        )
    ]
    request = OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics
    )

    async def committed() -> bool:
        answer: OffsetCommitResponse = await client.ask(request, 7)
        return answer.topics[0].partitions[0].error_code == 0

    await until(committed, "the group's partition is loaded")
    logs = [p.log for p in broker.node.replicas.partitions.values() if p.log.log_end_offset]
    assert logs
    assert all(kept.recovery_point == kept.log_end_offset for kept in logs)


@on_broker(NEVER, both=False)
async def test_a_log_that_was_deleted_meanwhile_is_no_broken_disk(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    kept = partition_of(broker)
    await client.ask(delete_topics(6, "t"), 6)
    assert not await broker.node.replicas.flushes.flush(kept)
    assert not broker.node.replicas.is_offline


def test_what_had_no_room_is_made_when_there_is_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("odradek.broker.maintenance.unmade.RETRY_MS", 20)
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            files.faults["create"] = errno.ENOSPC
            await client.create_topic("t", 3)
            code = (await client.produce("t", batch_of(b"a"))).error_code
            assert code == ErrorCode.KAFKA_STORAGE_ERROR
            files.faults.clear()
            served = broker.node.replicas.partitions
            await until(lambda: sum(p.is_leader for p in served.values()) == 3)
            for partition in range(3):
                assert await client.append("t", batch_of(b"a"), partition=partition) == 0
            epochs = {p.state.leader_epoch for p in broker.node.replicas.partitions.values()}
            assert epochs == {0}  # it was the leader all the time, there is no other

    asyncio.run(main())


def test_what_a_full_disk_did_not_delete_is_deleted_when_it_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        monkeypatch.setattr("odradek.broker.maintenance.unmade.RETRY_MS", 20)
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            files.where, files.faults = "t-0", {"rename": errno.ENOSPC}
            await client.ask(delete_topics(6, "t"), 6)
            assert broker.node.replicas.log_dirs.find("t", 0) is not None
            files.faults = {}
            await until(lambda: broker.node.replicas.log_dirs.find("t", 0) is None)
            await client.create_topic("t")
            assert await client.append("t", batch_of(b"a")) == 0

    asyncio.run(main())


def test_what_lay_in_a_directory_that_failed_is_to_be_deleted_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        files, dirs = FaultyFiles(), {"log.dirs": f"{tmp_path}/first,{tmp_path}/second"}
        async with running(tmp_path, {**NEVER, **dirs}, files=files) as broker:
            client, replicas = await broker.client(), broker.node.replicas
            await client.create_topic("t", 2)
            files.where, files.faults = f"{tmp_path}/second/t-", {"rename": errno.ENOSPC}
            await client.ask(delete_topics(6, "t"), 6)
            await until(lambda: [*replicas.statuses.where(Presence.UNDELETED)])
            replicas.take_offline(LogDirFailed("lost", f"{tmp_path}/second"))
            assert not await Unmade(replicas, broker._runtime)._must_ask()
            assert not [*replicas.statuses.where(Presence.UNDELETED)]

    asyncio.run(main())


class Gate:
    """Holds the threads that sync until it is opened."""

    def __init__(self, files: FaultyFiles) -> None:
        self.arrived = threading.Event()
        self.go_on = threading.Event()
        files.before = self.pass_through

    def pass_through(self, operation: str) -> None:
        if operation in ("sync", "write"):
            self.arrived.set()
            assert self.go_on.wait(10)


def test_a_topic_may_be_deleted_while_it_is_flushed(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"a"))
            kept = partition_of(broker)
            gate = Gate(files)
            flushing = asyncio.ensure_future(broker.node.replicas.flushes.flush(kept))
            await until(gate.arrived.is_set)
            await client.ask(delete_topics(6, "t"), 6)
            gate.go_on.set()
            await client.create_topic("t")
            await flushing
            assert not broker.node.replicas.is_offline
            assert await client.append("t", batch_of(b"b")) == 0

    asyncio.run(main())


@pytest.mark.parametrize("what", ["flush", "checkpoint"])
def test_a_stop_waits_for_what_a_thread_writes(tmp_path: Path, what: str) -> None:
    """Else two threads would write one checkpoint, and files would stay open."""

    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"a"))
            gate, checkpointer = Gate(files), checkpointer_of(broker)
            flushing = what == "flush"
            flush, kept = broker.node.replicas.flushes.flush, partition_of(broker)
            task: asyncio.Task[object] = asyncio.create_task(
                flush(kept) if flushing else checkpointer._checkpoint()
            )
            await until(gate.arrived.is_set)
            task.cancel()
            await turns(10)
            assert not task.done()
            assert bool(files.references) == flushing
            gate.go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert files.references == []

    asyncio.run(main())


def test_a_checkpoint_of_which_a_full_disk_took_a_part(tmp_path: Path) -> None:
    """It is written again, also if all is soon as it was before."""

    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client, checkpointer = await broker.client(), checkpointer_of(broker)
            await client.create_topic("t")
            await client.append("t", batch_of(b"a"))
            flush = broker.node.replicas.flushes.flush
            await flush(partition_of(broker))
            assert not await checkpointer._checkpoint()
            await client.append("t", batch_of(b"b"))
            await flush(partition_of(broker))
            files.where, files.faults = "/replication-offset", {"write": errno.ENOSPC}
            assert await checkpointer._checkpoint()
            assert recovery_points(broker) == {("t", 0): 2}
            files.faults = {}
            log_of(broker).truncate(1)
            assert not await checkpointer._checkpoint()
            assert recovery_points(broker) == {("t", 0): 1}

    asyncio.run(main())


@on_broker(NEVER, both=False)
async def test_a_partition_that_could_not_be_loaded_and_is_set_aside_is_forgotten(
    broker: RunningBroker,
) -> None:
    """Or, while nothing else happens, none of that name could be made."""
    data_dir, checkpointer = broker.node.replicas.log_dirs.first, checkpointer_of(broker)
    found = FoundPartition(f"{data_dir.path}/t-0", "t", 0, False, LoadHints(clean=False), None)
    broker.files.make_directory(found.directory)
    data_dir.unserved["t", 0] = Unserved("it is damaged", found)
    assert not await checkpointer._checkpoint()
    assert data_dir.remembered == {("t", 0)}
    data_dir.set_unserved_aside("t", 0, bytes(16))
    assert not await checkpointer._checkpoint()
    assert not data_dir.remembered


def test_a_checkpoint_of_a_topic_that_was_made_anew(tmp_path: Path) -> None:
    """A kill before the next checkpoint: the offsets on disk are those of the topic before."""

    async def main() -> None:
        async with running(tmp_path, NEVER) as broker:
            client = await broker.client()
            await client.create_topic("t")
            for _ in range(50):
                await client.append("t", batch_of(b"old" * 100))
            kept = log_of(broker)
            plan = kept.flush_plan()
            assert plan is not None
            plan.run()
            kept.flushed(plan)
            broker.node.replicas.log_dirs.first.checkpoint()
            names = (RECOVERY_POINT, "replication-offset-checkpoint")
            stale = {name: (tmp_path / "data" / name).read_bytes() for name in names}
            assert b"t 0 50" in stale[RECOVERY_POINT]
            await client.ask(delete_topics(6, "t"), 6)
            await client.create_topic("t")
            await client.append("t", batch_of(b"new"))
            image = tmp_path / "image" / "data"
            image.mkdir(parents=True)
            for path in (tmp_path / "data").rglob("*"):
                target = image / path.relative_to(tmp_path / "data")
                if path.is_dir():
                    target.mkdir(exist_ok=True)
                else:
                    target.write_bytes(path.read_bytes())
            for name, content in stale.items():
                (image / name).write_bytes(content)
        async with running(tmp_path / "image") as again:
            client = await again.client()
            data = await client.fetch("t")
            assert records_in(data.records) == [(0, b"new")]
            assert data.high_watermark == 1
            assert (await client.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert await client.append("t", batch_of(b"more")) == 1

    asyncio.run(main())


@on_broker(NEVER, both=False)
async def test_silent_producers_are_forgotten(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    batch = batch_of(
        b"a", timestamp=broker.clock.wall_ms(), producer_id=1, producer_epoch=0, base_sequence=0
    )
    await client.append("t", batch)
    producers = log_of(broker).producers
    expiry = ProducerExpiry(broker.node.replicas, broker.config, broker._runtime)
    assert expiry.expire() == 0
    assert len(producers) == 1
    broker.clock.moved_ms += broker.config.producer_id_expiration_ms + 1000
    assert expiry.expire() == 1
    assert len(producers) == 0
