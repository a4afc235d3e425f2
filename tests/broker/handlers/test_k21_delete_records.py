"""DeleteRecords; the codes are those that a real 3.9.2 gave for the same requests."""

import asyncio
import threading
from pathlib import Path

import pytest

from odradek.broker.partitions import moves
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.storage.directory import moving
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.log.checkpoint import LOG_START, read_offsets
from odradek.storage.log.log import Log
from odradek.storage.log.plans import DeletePlan
from tests.broker.faulty_files import BROKEN, FULL, FaultyFiles
from tests.broker.partitions.log_dirs import broker_at, dir_of, held_at
from tests.broker.running import RunningBroker, on_broker, running
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.messages import batch_of, delete_records, list_offsets, records_in

ABSENT = (-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
OUT_OF_RANGE = (-1, ErrorCode.OFFSET_OUT_OF_RANGE)
NEVER = {"odradek.flush.ms": str(1 << 40), "odradek.flush.bytes": str(1 << 40)}
EARLIEST, HIGH_WATERMARK = -2, -1

Result = tuple[int, int]


async def delete(client: Client, *asked: tuple[str, int, int]) -> dict[tuple[str, int], Result]:
    """Low watermark and code of each partition."""
    answer = await client.ask(delete_records(*asked), 2)
    return {
        (topic.name, partition.partition_index): (partition.low_watermark, partition.error_code)
        for topic in answer.topics
        for partition in topic.partitions
    }


async def delete_one(
    client: Client, offset: int, *, topic: str = "t", partition: int = 0
) -> Result:
    (result,) = (await delete(client, (topic, partition, offset))).values()
    return result


def log_starts(broker: RunningBroker) -> dict[tuple[str, int], int]:
    """As they are on disk."""
    return read_offsets(broker.files, f"{broker.data_dir}/{LOG_START}") or {}


@on_broker(NEVER, both=False)
async def test_the_log_starts_where_it_was_told_to(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    for _ in range(3):
        await client.append("t", batch_of(b"a", b"b"))
    assert await delete_one(client, 3) == (3, 0)
    assert log_starts(broker) == {("t", 0): 3}
    earliest = await client.ask(list_offsets("t", EARLIEST), 9)
    assert earliest.topics[0].partitions[0].offset == 3
    assert (await client.fetch("t", 2)).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    found = await client.fetch("t", 3)
    assert found.log_start_offset == 3
    assert records_in(found.records) == [(2, b"a"), (3, b"b"), (4, b"a"), (5, b"b")]
    assert await delete_one(client, 1) == (3, 0)  # it never goes back
    assert await delete_one(client, HIGH_WATERMARK) == (6, 0)
    assert log_starts(broker) == {("t", 0): 6}
    assert records_in((await client.fetch("t", 6)).records) == []
    assert await client.append("t", batch_of(b"c")) == 6
    assert await delete_one(client, HIGH_WATERMARK, partition=1) == (0, 0)
    assert await delete_one(client, 0, partition=1) == (0, 0)


@on_broker(NEVER, both=False)
async def test_what_a_follower_lacks_is_not_deleted(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t")
    await client.append("t", batch_of(b"a"))
    partition = broker.node.replicas.partitions["t", 0]
    both = (*partition.state.replicas, 99)
    epoch = partition.state.partition_epoch + 1
    partition.become(partition.state._replace(isr=both, replicas=both, partition_epoch=epoch), 0)
    await client.append("t", batch_of(b"b"), acks=1)
    assert (partition.log.high_watermark, partition.log.log_end_offset) == (1, 2)
    assert await delete_one(client, 2) == OUT_OF_RANGE
    assert await delete_one(client, HIGH_WATERMARK) == (1, 0)
    assert log_starts(broker) == {("t", 0): 1}


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_what_is_refused(tmp_path: Path, policy: str) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.create_topic("__consumer_offsets")
            await client.create_topic("c", configs={"cleanup.policy": policy})
            await client.append("t", batch_of(b"a", b"b"))
            for offset in (3, -2, -(1 << 63), (1 << 63) - 1):
                assert await delete_one(client, offset) == OUT_OF_RANGE
            for topic, partition in (("t", 9), ("t", -1), ("absent", 0), ("a b", 0), ("", 0)):
                assert await delete_one(client, 0, topic=topic, partition=partition) == ABSENT
            internal = (-1, ErrorCode.INVALID_TOPIC_EXCEPTION)
            assert await delete_one(client, 0, topic="__consumer_offsets") == internal
            assert await delete_one(client, 0, topic="__consumer_offsets", partition=9) == ABSENT
            assert await delete_one(client, 0, topic="__transaction_state") == ABSENT
            refused = (-1, ErrorCode.POLICY_VIOLATION)
            for offset in (0, HIGH_WATERMARK):
                expected = refused if policy == "compact" else (0, 0)
                assert await delete_one(client, offset, topic="c") == expected
            broker.node.replicas.partitions["t", 0].is_leader = False
            assert await delete_one(client, 0) == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    asyncio.run(main())


@on_broker(both=False)
async def test_several_and_doubles(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    await client.create_topic("u")
    for partition in (0, 1):
        await client.append("t", batch_of(b"a", b"b"), partition=partition)
    found = await delete(
        client, *(("t", 0, 1), ("u", 0, 1), ("t", 1, 9), ("absent", 0, 0), ("t", 1, 2), ("t", 0, 9))
    )
    assert found == {
        ("t", 0): OUT_OF_RANGE,  # the last that is said of a partition counts
        ("t", 1): (2, 0),
        ("u", 0): OUT_OF_RANGE,
        ("absent", 0): ABSENT,
    }
    again = [DeleteRecordsPartition(partition_index=0, offset=offset) for offset in (9, 1)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=again)])
    (topic,) = (await client.ask(request, 0)).topics
    assert [(p.partition_index, p.low_watermark, p.error_code) for p in topic.partitions] == [
        (0, 1, 0)
    ]
    assert (await client.ask(DeleteRecordsRequest(), 1)).topics == []


class Gate:
    """Holds the threads that write until it is opened."""

    def __init__(self, files: FaultyFiles) -> None:
        self.arrived, self.go_on = threading.Event(), threading.Event()
        self._loop_thread = threading.current_thread()
        files.before = self._pass_through

    def _pass_through(self, operation: str) -> None:
        if operation == "write" and threading.current_thread() is not self._loop_thread:
            self.arrived.set()
            assert self.go_on.wait(10)


@pytest.mark.parametrize("how", ["kept", "hung up", "stopped"])
def test_the_answer_waits_for_the_disk(tmp_path: Path, how: str) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client, other = await broker.client(), await broker.client()
            await client.create_topic("t", 2)
            for partition in (0, 1):
                await client.append("t", batch_of(b"a", b"b"), partition=partition)
            gate = Gate(files)
            first = asyncio.ensure_future(delete_one(client, 1))
            await until(gate.arrived.is_set)
            second = asyncio.ensure_future(delete_one(other, 2, partition=1))
            await until(lambda: broker.node.replicas.checkpoint_waiters)
            assert not first.done()
            assert log_starts(broker) == {}
            if how == "hung up":
                client.abort()
            stopping = asyncio.ensure_future(broker.stop()) if how == "stopped" else None
            await asyncio.sleep(0)
            gate.go_on.set()
            if stopping is None:
                # It came when the first was being written: it is in the next one.
                assert await second == (2, 0)
                assert log_starts(broker) == {("t", 0): 1, ("t", 1): 2}
            else:
                await stopping
            found = await asyncio.gather(first, second, return_exceptions=True)
            if how == "kept":
                assert found[0] == (1, 0)
            else:
                assert isinstance(found[0], HungUp)
        async with running(tmp_path) as broker:
            starts = [broker.node.replicas.partitions["t", p].log.log_start_offset for p in (0, 1)]
            assert starts == [1, 2]

    asyncio.run(main())


@pytest.mark.parametrize("fault", [FULL, BROKEN])
def test_a_disk_that_does_not_keep_it(tmp_path: Path, fault: int) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, NEVER, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"a", b"b"))
            files.where, files.faults = "checkpoint", {"write": fault}
            failed = (-1, ErrorCode.KAFKA_STORAGE_ERROR)
            assert await delete_one(client, 1) == failed
            assert await delete_one(client, 1) == failed  # it was not written down by the first
            files.faults = {}
            if fault == FULL:
                assert await delete_one(client, 1) == (1, 0)
                assert log_starts(broker) == {("t", 0): 1}
            else:
                assert broker.node.replicas.is_offline

    asyncio.run(main())


def test_another_directory_that_is_full(tmp_path: Path) -> None:
    """It refuses its own partition only."""

    async def main() -> None:
        files = FaultyFiles()
        async with broker_at(tmp_path, files, NEVER) as broker:
            client = await broker.client()
            for topic in ("t", "u"):
                await client.create_topic(topic)
                await client.append(topic, batch_of(b"a", b"b"))
            files.where, files.faults = f"/{dir_of(broker)}/", {"write": FULL}
            assert await delete(client, ("t", 0, 1), ("u", 0, 1)) == {
                ("t", 0): (-1, ErrorCode.KAFKA_STORAGE_ERROR),
                ("u", 0): (1, 0),
            }
            files.faults = {}

    asyncio.run(main())


def test_a_replica_that_changes_its_directory_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its start has to be safe where it is by then, and that disk is full."""

    async def main() -> None:
        files = FaultyFiles()

        def retire(source: Log, data_dir: DataDir, uuid: bytes) -> DeletePlan:
            files.where, files.faults = f"/b/{LOG_START}", {"write": FULL}
            return moving.retire(source, data_dir, uuid)

        monkeypatch.setattr(moves, "retire", retire)
        async with broker_at(tmp_path, files, NEVER) as broker:
            client, replicas = await broker.client(), broker.node.replicas
            # The checkpoints of the move are written by then.
            let_go = await held_at(broker, client, "FaultyFiles.sync_path")
            checkpoint = replicas.checkpoint

            async def once_it_is_moved(data_dir: DataDir | None = None) -> None:
                monkeypatch.setattr(replicas, "checkpoint", checkpoint)
                let_go.set()
                await until(lambda: dir_of(broker) == "b")
                await checkpoint(data_dir)

            monkeypatch.setattr(replicas, "checkpoint", once_it_is_moved)
            while_it_moved = await delete_one(client, 1)
            files.faults = {}
            assert while_it_moved == (-1, ErrorCode.KAFKA_STORAGE_ERROR)
            assert await delete_one(client, 1) == (1, 0)
            assert read_offsets(broker.files, f"{tmp_path}/b/{LOG_START}") == {("t", 0): 1}

    asyncio.run(main())


@on_broker(NEVER, both=False)
async def test_a_log_that_is_cut_below_its_new_start_meanwhile(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It follows another leader by then: nothing is promised, and nothing asked for for ever."""
    client, replicas = await broker.client(), broker.node.replicas
    await client.create_topic("t")
    for _ in range(3):
        await client.append("t", batch_of(b"a", b"b"))
    partition, checkpoint, count = replicas.partitions["t", 0], replicas.checkpoint, 0

    async def once_it_follows(data_dir: DataDir | None = None) -> None:
        nonlocal count
        count += 1
        if count == 1:
            partition.is_leader = False
            partition.log.truncate(2)
        assert count < 10
        await checkpoint(data_dir)

    monkeypatch.setattr(replicas, "checkpoint", once_it_follows)
    assert await delete_one(client, 5) == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)
