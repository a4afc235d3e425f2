"""What a failing disk does to the replicas of a broker, and what its clients hear."""

import asyncio
from pathlib import Path

import pytest

from odradek.broker.core.controller.requests import StoppedReplica
from odradek.broker.core.log_uses import Use
from odradek.broker.core.partition_state import TopicPartition
from odradek.broker.partitions import roles
from odradek.broker.server import StartupError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from odradek.storage.errors import LogDirFailed
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.connections import HungUp
from tests.support.messages import batch_of, creatable, fetch_request, list_offsets, records_in

from ..asked import Asked
from ..faulty_files import BROKEN, FULL, FaultyFiles
from ..requests import delete_topics
from ..running import DEADLINE_S, RunningBroker, make_broker, on_broker, running

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


async def codes_of(client: Client) -> list[int]:
    """What a Produce, a Fetch and a ListOffsets of topic t are answered."""
    produced = await client.produce("t", batch_of(b"x"))
    fetched = await client.fetch("t")
    listed = (await client.ask(list_offsets("t", -1), 9)).topics[0].partitions[0]
    return [produced.error_code, fetched.error_code, listed.error_code]


async def until_deleted(broker: RunningBroker, topic: str) -> None:
    """Return once the controller has deleted a topic."""

    async def is_deleted() -> bool:
        return await broker.session.exists(f"/admin/delete_topics/{topic}") is None

    await until(is_deleted, f"{topic} is deleted")


def test_a_full_disk_refuses_and_goes_on(
    tmp_path: Path, portable: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, portable=portable, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"before"))
            files.faults = {"append": FULL}
            for _ in range(5):
                result = await client.produce("t", batch_of(b"x"))
                assert (result.error_code, result.base_offset) == (STORAGE_ERROR, -1)
            assert caplog.text.count("disk full") == 1
            assert (await client.fetch("t")).error_code == 0
            files.faults = {}
            assert await client.append("t", batch_of(b"after")) == 1
            data = await client.fetch("t")
            assert [value for _, value in records_in(data.records)] == [b"before", b"after"]
            assert not broker.node.replicas.is_offline

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["append", "pread", "sync"])
def test_a_broken_disk_takes_everything_offline(tmp_path: Path, operation: str) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, {"odradek.flush.ms": "1"}, files=files) as broker:
            client, waiting = await broker.client(), await broker.client()
            await client.create_topic("t")
            await client.create_topic("other")
            await client.append("t", batch_of(b"a", timestamp=5))
            files.faults = {operation: BROKEN}
            if operation == "append":
                assert (await client.produce("t", batch_of(b"b"))).error_code == STORAGE_ERROR
            elif operation == "pread":
                found = await client.ask(list_offsets("t", 1), 9)
                assert found.topics[0].partitions[0].error_code == STORAGE_ERROR
            reason = await asyncio.wait_for(broker.failed(), DEADLINE_S)
            assert "offline" in reason
            assert str(tmp_path) in reason
            files.faults = {}
            assert await codes_of(client) == [STORAGE_ERROR] * 3
            assert (await client.produce("other", batch_of(b"b"))).error_code == STORAGE_ERROR
            answer = await client.ask(DescribeLogDirsRequest(topics=None), 4)
            assert answer.results[0].error_code == STORAGE_ERROR
            await waiting.close()
        assert not (tmp_path / "data/.kafka_cleanshutdown").exists(), "that would be a lie"
        async with running(tmp_path) as again:
            data = await (await again.client()).fetch("t")
            assert [value for _, value in records_in(data.records)] == [b"a"]

    asyncio.run(main())


def test_a_long_poll_hears_of_a_broken_disk(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, files=files) as broker:
            reader, writer = await broker.client(), await broker.client()
            await writer.create_topic("t")
            fetching = asyncio.ensure_future(reader.fetch("t", wait_ms=60_000))
            await until(lambda: broker.node.replicas.partitions["t", 0].waiters)
            files.faults = {"append": BROKEN}
            await writer.produce("t", batch_of(b"x"))
            assert (await fetching).error_code == STORAGE_ERROR

    asyncio.run(main())


def test_a_span_that_cannot_be_read_ends_its_connection(tmp_path: Path, portable: bool) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, portable=portable, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(bytes(500_000)))

            partition = broker.node.replicas.partitions["t", 0]
            read = type(partition.log).read

            def read_then_break(*arguments: object, **more: object) -> object:
                found = read(partition.log, *arguments[1:], **more)  # type: ignore[arg-type]
                files.faults = {"open": BROKEN, "pread": BROKEN}
                return found

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(type(partition.log), "read", read_then_break)
                client.send(fetch_request("t"), 12)
                with pytest.raises(HungUp):
                    await client.read_frame()
            files.faults = {}
            await until(lambda: not files.references)

    asyncio.run(main())


def test_a_topic_for_which_there_is_no_room(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, files=files) as broker:
            client = await broker.client()
            await client.create_topic("good")
            files.faults = {"create": FULL, "mkdir": FULL, "write": FULL}
            request = CreateTopicsRequest(topics=[creatable("t")], timeout_ms=10_000)
            await client.ask(request, 7)
            files.faults = {}
            assert await codes_of(client) == [STORAGE_ERROR] * 3
            assert await client.append("good", batch_of(b"a")) == 0
            await client.ask(delete_topics(6, "t"), 6)
            await until_deleted(broker, "t")
            await client.create_topic("t")
            assert await codes_of(client) == [0] * 3
        async with running(tmp_path) as again:
            assert await (await again.client()).append("t", batch_of(b"b")) == 1

    asyncio.run(main())


def test_what_was_not_made_for_want_of_room_is_made_at_the_next_start(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, files=files) as broker:
            client = await broker.client()
            files.faults = {"mkdir": FULL}
            request = CreateTopicsRequest(topics=[creatable("t", 2)], timeout_ms=10_000)
            await client.ask(request, 7)
        async with running(tmp_path) as again:
            client = await again.client()
            for partition in (0, 1):
                assert await client.append("t", batch_of(b"b"), partition=partition) == 0

    asyncio.run(main())


@pytest.mark.parametrize("operation", ["mkdir", "rename", "remove"])
def test_a_disk_that_breaks_under_the_controller(tmp_path: Path, operation: str) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, {"log.segment.delete.delay.ms": "0"}, files=files) as broker:
            client = await broker.client()
            await client.create_topic("t")
            files.faults = {operation: BROKEN}
            files.where = "t-0" if operation != "mkdir" else ""
            if operation == "mkdir":
                request = CreateTopicsRequest(topics=[creatable("u")], timeout_ms=10_000)
                await client.ask(request, 7)
            else:
                await client.ask(delete_topics(6, "t"), 6)
            assert "offline" in await asyncio.wait_for(broker.failed(), DEADLINE_S)
            files.faults = {}

    asyncio.run(main())


def test_a_disk_whose_space_nobody_knows(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with running(tmp_path, files=files) as broker:
            client = await broker.client()
            files.faults = {"space": BROKEN}
            answer = await client.ask(DescribeLogDirsRequest(topics=None), 4)
            assert answer.results[0].error_code == STORAGE_ERROR
            files.faults = {}
            answer = await client.ask(DescribeLogDirsRequest(topics=None), 4)
            assert answer.results[0].error_code == 0

    asyncio.run(main())


def test_a_directory_that_cannot_be_written_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        files.faults = {"write": BROKEN}
        broker, runtime = make_broker(tmp_path, files=files)
        try:
            with pytest.raises(StartupError, match="not writable"):
                await broker.start()
        finally:
            runtime.close()

    asyncio.run(main())


def test_a_stop_that_cannot_make_everything_durable_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        broker, runtime = make_broker(tmp_path, files=files)
        try:
            await broker.start()
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"a"))
            await client.close()
            files.faults = {"sync": BROKEN}
            with pytest.raises(LogDirFailed):
                await broker.stop()
        finally:
            runtime.close()
        assert not (tmp_path / "data/.kafka_cleanshutdown").exists()

    asyncio.run(main())


@pytest.mark.slow
def test_others_have_their_turn_while_a_large_topic_is_deleted(tmp_path: Path) -> None:
    async def main() -> None:
        settings = {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}
        async with running(tmp_path, settings) as broker:
            client = await broker.client()
            await client.create_topic("t", partitions=150)
            replicas = broker.node.replicas
            doomed = [StoppedReplica("t", number, -2, True) for number in range(150)]
            told: list[TopicPartition] = []
            stopping = asyncio.ensure_future(
                roles.stop(replicas, broker.node.clock, doomed, told.extend)
            )
            await asyncio.sleep(0)
            assert not stopping.done()
            assert not replicas.partitions
            assert told == [replica.key for replica in doomed]
            first, second = replicas.log_dirs.online
            lost = set(second.logs)
            replicas.take_offline(LogDirFailed("broken", second.path))  # in the midst of it
            codes = await stopping
            assert not first.logs
            assert lost
            assert {key for key, code in codes.items() if code == STORAGE_ERROR} == lost
            assert set(codes.values()) == {0, STORAGE_ERROR}

    asyncio.run(main())


@pytest.mark.slow
@on_broker(both=False)
async def test_a_deletion_waits_for_who_still_renames_files(broker: RunningBroker) -> None:
    """They go by names, which a new log's files would have too."""
    client = await broker.client()
    await client.create_topic("t")
    replicas = broker.node.replicas
    old = replicas.partitions["t", 0].log

    def is_there() -> bool:
        return (Path(old.directory) / f"{0:020d}.log").exists()

    uses = replicas.uses = Asked()
    uses.begin(old, Use.COMPACTS | Use.EXPIRES)
    deleting = asyncio.create_task(client.ask(delete_topics(6, "t"), 6))
    await until(lambda: not replicas.partitions)
    for use in (Use.COMPACTS, Use.EXPIRES):
        await uses.asked()
        assert is_there()
        assert ("t", 0) not in replicas.partitions, "nobody uses it any more"
        uses.end(old, use)
    await deleting
    await until_deleted(broker, "t")
    assert not is_there()
    await client.create_topic("t")
    assert replicas.partitions["t", 0].log is not old
    assert await client.append("t", batch_of(b"a")) == 0
