"""What a log directory costs that fails, is missing or is full."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.core.replica_status import Presence
from odradek.broker.server import StartupError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.plans import create_together
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, creatable, error_codes, list_offsets

from ..faulty_files import BROKEN, FULL, FaultyFiles
from ..group_requests import commit
from ..requests import delete_topics
from ..running import DEADLINE_S, make_broker
from .log_dirs import (
    GROUPS,
    STORAGE_ERROR,
    alter,
    broker_at,
    committed,
    dir_of,
    directories,
    paths_of,
    values,
)


async def codes_of(client: Client, topic: str) -> list[int]:
    produced = await client.produce(topic, batch_of(b"x"))
    fetched = await client.fetch(topic)
    listed = (await client.ask(list_offsets(topic, -1), 9)).topics[0].partitions[0]
    return [produced.error_code, fetched.error_code, listed.error_code]


async def led(client: Client) -> dict[str, tuple[int, int, list[int]]]:
    answer = await client.ask(MetadataRequest(topics=None), 12)
    return {
        t.name: (p.error_code, p.leader_id, p.offline_replicas)
        for t in answer.topics
        for p in t.partitions
    }


def test_a_directory_fails_while_a_log_is_made_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def main() -> None:
        async with broker_at(tmp_path, FaultyFiles()) as broker:
            client, replicas = await broker.client(), broker.node.replicas
            for topic in ("t", "u"):
                await client.create_topic(topic)
            offload = broker.node.runtime.offload
            third = replicas.log_dirs.online[2]

            async def offload_and_fail(function: Callable[..., Any], *arguments: Any) -> Any:
                done = await offload(function, *arguments)
                if function is create_together and third in replicas.log_dirs.online:
                    replicas.take_offline(LogDirFailed("broken", third.path))
                return done

            monkeypatch.setattr(broker.node.runtime, "offload", offload_and_fail)
            await client.ask(CreateTopicsRequest(topics=[creatable("v")], timeout_ms=100), 7)
            shown = broker.node.metadata.partition
            await until(lambda: (state := shown("v", 0)) is not None and state.leader == -1)
            assert await codes_of(client, "v") == [STORAGE_ERROR] * 3
            assert list(replicas.statuses.where(Presence.OFFLINE)) == [("v", 0)]

    asyncio.run(main())


def test_a_directory_that_fails_takes_only_its_own_along(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            for topic in ("t", "u", "v"):
                await client.create_topic(topic)
                await client.append(topic, batch_of(b"a"))
            assert [dir_of(broker, topic) for topic in ("t", "u", "v")] == ["a", "b", "c"]
            files.faults, files.where = {"append": BROKEN}, str(tmp_path / "b")
            assert (await client.produce("u", batch_of(b"b"))).error_code == STORAGE_ERROR
            files.faults = {}
            assert await codes_of(client, "u") == [STORAGE_ERROR] * 3
            assert await codes_of(client, "t") == await codes_of(client, "v") == [0] * 3
            shown = broker.node.metadata.partition
            await until(lambda: (state := shown("u", 0)) is not None and state.leader == -1)
            number = broker.broker_id
            leaderless = (ErrorCode.LEADER_NOT_AVAILABLE, -1, [number])
            assert await led(client) == {
                "t": (0, number, []),
                "u": leaderless,
                "v": (0, number, []),
            }
            results = (await client.ask(DescribeLogDirsRequest(topics=None), 4)).results
            assert [r.error_code for r in results] == [0, STORAGE_ERROR, 0]
            assert await alter(client, str(tmp_path / "b")) == [STORAGE_ERROR]
            assert await alter(client, str(tmp_path / "c")) == [STORAGE_ERROR]
            assert await alter(client, str(tmp_path / "c"), ("u", 0)) == [STORAGE_ERROR]
            await client.create_topic("w", 2)
            assert {dir_of(broker, "w", p) for p in (0, 1)} == {"a", "c"}
            assert await broker.session.children("/log_dir_event_notification") == []
        assert not (tmp_path / "b/.kafka_cleanshutdown").exists()
        assert (tmp_path / "c/.kafka_cleanshutdown").exists()
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            assert [e for e, _, _ in (await led(client)).values()] == [0] * 4
            assert await values(client, "u") == [b"a"]

    asyncio.run(main())


def test_the_first_directory_ends_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            await client.create_topic("t", 2)
            files.faults, files.where = {"append": BROKEN}, str(tmp_path / "a")
            await client.produce("t", batch_of(b"b"))
            reason = await asyncio.wait_for(broker.failed(), DEADLINE_S)
            assert "first log directory, with the store, is offline" in reason
            files.faults = {}

    asyncio.run(main())


class MissingDisk(FaultyFiles):
    """A disk that is gone when the broker starts."""

    def lock(self, path: str):  # type: ignore[no-untyped-def]
        self.meet("lock", path)
        return super().lock(path)


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["lock", "write", "list"])
def test_a_start_without_one_of_the_disks(
    tmp_path: Path, operation: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t", 3)
            for partition in range(3):
                await client.append("t", batch_of(b"a"), partition=partition)
        files = MissingDisk()
        files.where = str(tmp_path / "b")
        if operation == "list":
            (tmp_path / "b").rename(tmp_path / "away")
            (tmp_path / "b").symlink_to("/dev/null/x")
        else:
            (tmp_path / "b/meta.properties").unlink()
            files.faults = {operation: BROKEN}
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            codes = [(await client.fetch("t", partition=p)).error_code for p in range(3)]
            assert sorted(codes) == [0, 0, STORAGE_ERROR]
            assert "log directory offline" in caplog.text
            await client.create_topic("new", 3)
            assert (await client.produce("new", batch_of(b"a"))).error_code == 0
            # Nobody is served it any more, but what may lie on the disk that is gone is not
            # deleted, so the deletion goes on when that is back.
            (result,) = (await client.ask(delete_topics(6, "t"), 6)).responses
            assert result.error_code == 0
            assert await broker.session.exists(znodes.delete_topic_path("t")) is not None
        if operation == "list":
            (tmp_path / "b").unlink()
            (tmp_path / "away").rename(tmp_path / "b")
        async with broker_at(tmp_path) as broker:
            assert list(broker.node.metadata.topics) == ["new"]

    asyncio.run(main())


def test_a_full_directory_is_passed_over(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        async with broker_at(tmp_path, files) as broker:
            client = await broker.client()
            files.faults, files.where = {"create": FULL}, str(tmp_path / "a")
            await client.create_topic("t")
            assert dir_of(broker) == "b"
            assert directories(tmp_path)["a"] == []

    asyncio.run(main())


def test_one_partition_in_two_directories_is_refused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with broker_at(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
        (tmp_path / "c/t-0").mkdir()
        settings = {"log.dirs": ",".join(paths_of(tmp_path))}
        broker, runtime = make_broker(tmp_path, settings)
        try:
            with pytest.raises(StartupError, match="hold the same partition") as error:
                await broker.start()
            assert f"{tmp_path}/a/t-0 and {tmp_path}/c/t-0" in str(error.value)
        finally:
            runtime.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())


def test_groups_in_a_failed_directory_have_no_coordinator(tmp_path: Path) -> None:
    async def main() -> None:
        files = FaultyFiles()
        settings = {"offsets.topic.num.partitions": "1"}
        async with broker_at(tmp_path, files, settings) as broker:
            client = await broker.client()
            assert await alter(client, str(tmp_path / "c"), (GROUPS, 0)) == [3]
            await client.create_topic("t")
            await client.ask(FindCoordinatorRequest(key="g", coordinator_keys=["g"]), 4)
            await until(lambda: not broker.node.groups.is_loading)
            assert dir_of(broker, GROUPS) == "c"
            await committed(client, 1)
            files.faults, files.where = {"append": BROKEN}, str(tmp_path / "c")
            await client.ask(commit("g", "t", {0: 5}), 8)
            files.faults = {}
            answer = await client.ask(commit("g", "t", {0: 5}), 8)
            assert error_codes(answer.topics[0].partitions) == [ErrorCode.NOT_COORDINATOR]
            assert not list(broker.node.groups.shards())

    asyncio.run(main())
