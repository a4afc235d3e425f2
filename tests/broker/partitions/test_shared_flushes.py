"""Writes that wait for the disk: what is answered when, and how many fsyncs that takes."""

import asyncio
import contextlib
import errno
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from odradek.broker.core.partition import Partition
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.messages.k03_metadata import MetadataRequest, MetadataResponse
from tests.support.awaiting import turns, until
from tests.support.client import Client
from tests.support.frames import request_bytes
from tests.support.messages import batch_of, produce_request, records_in

from ..faulty_files import FaultyFiles
from ..requests import delete_topics
from ..running import RunningBroker, running, waiters_of

NEVER = {"odradek.flush.ms": str(1 << 40), "odradek.flush.bytes": str(1 << 40)}
EACH = {**NEVER, "log.flush.interval.messages": "1"}
EVERY_THIRD = {**NEVER, "log.flush.interval.messages": "3"}


class SlowDisk(FaultyFiles):
    """Counts the fsyncs of segments, and holds them while `go_on` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.seen_syncs: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def meet(self, operation: str, path: str) -> None:
        if operation == "sync" and path.endswith(".log"):
            self.seen_syncs.append(path)
            assert self.go_on.wait(20)
        super().meet(operation, path)


@contextlib.asynccontextmanager
async def on_slow_disk(
    path: Path, settings: Mapping[str, str] = EACH, topics: tuple[str, ...] = ("t",)
) -> AsyncIterator[tuple[RunningBroker, SlowDisk, Client]]:
    """A broker with topics, and a client."""
    disk = SlowDisk()
    try:
        async with running(path, settings, files=disk) as broker:
            client = await broker.client()
            for topic in topics:
                await client.create_topic(topic)
            yield broker, disk, client
            disk.go_on.set()
    finally:
        disk.go_on.set()


def partition_of(broker: RunningBroker, topic: str = "t") -> Partition:
    return broker.node.replicas.partitions[topic, 0]


def send(client: Client, *values: bytes, acks: int = -1, timeout_ms: int = 10_000) -> int:
    request = produce_request("t", {0: batch_of(*values)}, acks=acks)
    request.timeout_ms = timeout_ms
    return client.send(request, 11)


async def result_of(client: Client, correlation_id: int) -> tuple[int, int]:
    """Error code and base offset of the only partition."""
    answer = await client.read(ProduceResponse, 11, correlation_id)
    (result,) = answer.responses[0].partition_responses
    return result.error_code, result.base_offset


@pytest.mark.parametrize("acks", [1, -1])
def test_nothing_is_answered_or_seen_before_its_fsync(tmp_path: Path, acks: int) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            reader = await broker.client()
            disk.go_on.clear()
            correlation_id = send(client, b"a", acks=acks)
            await until(lambda: disk.seen_syncs)
            data = await reader.fetch("t")
            assert (data.high_watermark, records_in(data.records)) == (0, [])
            assert partition_of(broker).log.log_end_offset == 1
            assert waiters_of(broker)
            disk.go_on.set()
            assert await result_of(client, correlation_id) == (0, 0)
            assert (await reader.fetch("t")).high_watermark == 1
            assert partition_of(broker).log.recovery_point == 1

    asyncio.run(main())


def test_one_fsync_covers_all_that_came_before_it_began(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            first = send(client, b"first")
            await until(lambda: disk.seen_syncs)
            others = [await broker.client() for _ in range(8)]
            asked = [(other, send(other, b"%d" % i)) for i, other in enumerate(others)]
            await until(lambda: partition_of(broker).log.log_end_offset == 9)
            disk.go_on.set()
            assert await result_of(client, first) == (0, 0)
            codes = [await result_of(*each) for each in asked]
            assert sorted(codes) == [(0, offset) for offset in range(1, 9)]
            assert len(disk.seen_syncs) == 2

    asyncio.run(main())


def test_partitions_are_flushed_beside_each_other(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path, topics=("t", "u")) as (broker, disk, client):
            other = await broker.client()
            disk.go_on.clear()
            first = send(client, b"a")
            second = other.send(produce_request("u", {0: batch_of(b"b")}), 11)
            await until(lambda: len(disk.seen_syncs) == 2)
            disk.go_on.set()
            assert await result_of(client, first) == await result_of(other, second) == (0, 0)

    asyncio.run(main())


def test_writes_wait_when_so_many_records_are_not_durable(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path, EVERY_THIRD) as (broker, disk, client):
            disk.go_on.clear()
            for offset in range(2):
                assert await client.append("t", batch_of(b"v")) == offset
            assert (await client.fetch("t")).high_watermark == 2
            assert not disk.seen_syncs
            third, fourth = send(client, b"v"), send(client, b"v", acks=1)
            await until(lambda: partition_of(broker).log.log_end_offset == 4)
            await until(lambda: disk.seen_syncs)
            assert len(waiters_of(broker)) == 2  # the fourth may not overtake the third
            disk.go_on.set()
            assert await result_of(client, third) == (0, 2)
            assert await result_of(client, fourth) == (0, 3)
            await client.append("t", batch_of(b"v"))
            await client.append("t", batch_of(b"v"))
            assert (await client.fetch("t")).high_watermark == 6

    asyncio.run(main())


def test_the_setting_of_a_topic_counts_from_now_on(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path, NEVER) as (broker, disk, client):
            await client.append("t", batch_of(b"a"))
            assert not disk.seen_syncs
            broker.node.replicas.set_overrides("t", {"flush.messages": "1"})
            await client.append("t", batch_of(b"a"))
            assert len(disk.seen_syncs) == 1
            broker.node.replicas.set_overrides("t", {})
            await client.append("t", batch_of(b"a"))
            assert len(disk.seen_syncs) == 1

    asyncio.run(main())


@pytest.mark.parametrize("acks", [1, -1])
def test_a_failed_fsync_acknowledges_nothing_and_is_the_last(tmp_path: Path, acks: int) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            other = await broker.client()
            disk.go_on.clear()
            disk.faults["sync"] = errno.EIO
            first = send(client, b"a", acks=acks)
            await until(lambda: disk.seen_syncs)
            second = send(other, b"b", acks=acks)
            await until(lambda: partition_of(broker).log.log_end_offset == 2)
            disk.go_on.set()
            for each, correlation_id in ((client, first), (other, second)):
                code, _ = await result_of(each, correlation_id)
                assert code == ErrorCode.KAFKA_STORAGE_ERROR
            disk.faults.clear()
            assert (await other.produce("t", batch_of(b"c"))).error_code == (
                ErrorCode.KAFKA_STORAGE_ERROR
            )
            assert broker.node.replicas.is_offline
            assert len(disk.seen_syncs) == 1

    asyncio.run(main())


def test_acks_all_waits_no_longer_than_it_says(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            patient = await broker.client()
            disk.go_on.clear()
            leader_only = send(patient, b"b", acks=1, timeout_ms=1)
            timed = send(client, b"a", timeout_ms=20)
            code, base_offset = await result_of(client, timed)
            assert code == ErrorCode.REQUEST_TIMED_OUT
            assert base_offset in (0, 1)  # it is in the log
            assert len(waiters_of(broker)) == 1  # Kafka flushes for acks=1 however long it takes
            disk.go_on.set()
            assert (await result_of(patient, leader_only))[0] == 0
            assert len(records_in((await client.fetch("t")).records)) == 2

    asyncio.run(main())


def test_who_loses_the_partition_hears_of_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            correlation_id = send(client, b"a")
            await until(lambda: disk.seen_syncs)
            partition = partition_of(broker)
            ours = partition.state
            epoch = ours.leader_epoch + 1
            partition.become(ours._replace(leader=9, leader_epoch=epoch), 0)
            partition.become(ours._replace(leader_epoch=epoch + 1), 0)  # too late
            answer = await client.read(ProduceResponse, 11, correlation_id)
            (result,) = answer.responses[0].partition_responses
            assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert result.current_leader.leader_id == 9
            assert result.current_leader.leader_epoch == epoch

    asyncio.run(main())


def test_a_topic_that_is_deleted_meanwhile(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            other = await broker.client()
            disk.go_on.clear()
            correlation_id = send(client, b"a")
            await until(lambda: disk.seen_syncs)
            await other.ask(delete_topics(6, "t"), 6)
            code, _ = await result_of(client, correlation_id)
            assert code in (
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            )
            disk.go_on.set()
            await other.create_topic("t")
            assert await other.append("t", batch_of(b"new")) == 0
            assert not broker.node.replicas.is_offline

    asyncio.run(main())


def test_who_hangs_up_waits_no_more(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            for _ in range(3):
                send(client, b"a")
            await until(lambda: len(waiters_of(broker)) == 3)
            client.abort()
            await until(lambda: not waiters_of(broker))
            disk.go_on.set()
            await until(lambda: partition_of(broker).log.recovery_point == 3)

    asyncio.run(main())


def test_produces_follow_each_other_and_all_else_waits_behind_them(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            asked = [send(client, b"%d" % number) for number in range(100)]
            metadata = client.send(MetadataRequest(topics=[]), 12)
            behind = send(client, b"behind")
            await until(lambda: len(waiters_of(broker)) == 64)
            await turns()
            assert partition_of(broker).log.log_end_offset == 64
            disk.go_on.set()
            for offset, correlation_id in enumerate(asked):
                assert await result_of(client, correlation_id) == (0, offset)
            await client.read(MetadataResponse, 12, metadata)
            assert await result_of(client, behind) == (0, 100)
            assert len(disk.seen_syncs) < 10

    asyncio.run(main())


def test_a_frame_that_comes_in_pieces_is_read_while_another_waits(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            first = send(client, b"a")
            await until(lambda: waiters_of(broker))
            large = request_bytes(produce_request("t", {0: batch_of(b"x" * 700_000)}), 11, 77)
            frame = len(large).to_bytes(4, "big") + large
            for start in range(0, 40, 1):
                client.send_bytes(frame[start : start + 1])
                await asyncio.sleep(0)
            client.send_bytes(frame[40:])
            await until(lambda: len(waiters_of(broker)) == 2)
            disk.go_on.set()
            assert await result_of(client, first) == (0, 0)
            assert await result_of(client, 77) == (0, 1)

    asyncio.run(main())


def test_a_duplicate_waits_for_the_one_before(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path) as (broker, disk, client):
            disk.go_on.clear()
            batch = batch_of(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
            request = produce_request("t", {0: batch})
            asked = [client.send(request, 11) for _ in range(2)]
            await until(lambda: len(waiters_of(broker)) == 2)
            disk.go_on.set()
            for correlation_id in asked:
                assert await result_of(client, correlation_id) == (0, 0)
            assert partition_of(broker).log.log_end_offset == 1

    asyncio.run(main())


def test_a_full_disk_does_not_keep_what_is_written_from_being_durable(tmp_path: Path) -> None:
    """The index entries that a flush writes have no room: they wait, the fsync does not."""

    async def main() -> None:
        settings = {**NEVER, "log.index.interval.bytes": "1"}
        async with on_slow_disk(tmp_path, settings) as (broker, disk, client):
            for _ in range(3):
                await client.append("t", batch_of(b"a" * 100))
            disk.faults["append"], disk.where = errno.ENOSPC, "index"
            broker.node.replicas.set_overrides("t", {"flush.messages": "1"})
            assert await client.append("t", batch_of(b"b")) == 3
            assert partition_of(broker).log.recovery_point == 4
            disk.faults.clear()

    asyncio.run(main())


def test_a_log_that_was_cut_below_what_was_due(tmp_path: Path) -> None:
    async def main() -> None:
        async with on_slow_disk(tmp_path, {**NEVER, **EVERY_THIRD}) as (broker, disk, client):
            disk.go_on.clear()
            send(client, *[b"v"] * 10)
            await until(lambda: disk.seen_syncs)
            partition = partition_of(broker)
            partition.log.truncate(0)
            disk.go_on.set()
            await until(lambda: not partition.awaits_flush)
            assert partition.log.recovery_point == partition.log.high_watermark == 0
            other = await broker.client()
            for offset in range(2):
                assert await other.append("t", batch_of(b"v")) == offset
            assert partition.log.recovery_point == 0
            await other.append("t", batch_of(b"v"))
            assert partition.log.recovery_point == 3
            client.abort()

    asyncio.run(main())
