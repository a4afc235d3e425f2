"""A broker from start to stop, and what a crash in between leaves for the next start."""

import asyncio
import contextlib
import functools
import os
import re
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.config import load_config
from odradek.broker.coordination import znodes
from odradek.broker.coordination.embedded import EmbeddedSession, EmbeddedStore
from odradek.broker.coordination.journal import SqliteJournal
from odradek.broker.partitions import roles
from odradek.broker.runtime import Runtime
from odradek.broker.server import STORE_FILE, Broker, StartupError
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.storage.log.checkpoint import CLEAN_SHUTDOWN
from tests.support.awaiting import turns, until
from tests.support.messages import batch_of, creatable, records_in

from .requests import delete_topics, metadata
from .running import DEADLINE_S, HOST, RunningBroker, make_broker, on_broker, running


@contextlib.asynccontextmanager
async def store_of(data_dir: Path) -> AsyncIterator[EmbeddedSession]:
    """The store of a broker that does not run."""
    runtime = Runtime.system()
    store = EmbeddedStore(data_dir / STORE_FILE, runtime=runtime)
    try:
        await store.start()
        yield await store.open_session(1000)
        await store.close()
    finally:
        runtime.close()


async def values_of(broker: RunningBroker, topic: str) -> list[bytes]:
    data = await (await broker.client()).fetch(topic)
    assert data.error_code == 0
    return [value for _, value in records_in(data.records)]


# Starting and stopping.


@on_broker()
async def test_two_starts_on_one_directory(broker: RunningBroker, tmp_path: Path) -> None:
    client = await broker.client()
    await client.create_topic("t", 2, configs={"retention.ms": "1000"})
    await client.append("t", batch_of(b"a"))
    cluster_id = broker.node.metadata.cluster_id
    await broker.stop()
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
    async with running(tmp_path) as again:
        assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()
        assert again.node.metadata.cluster_id == cluster_id
        assert await values_of(again, "t") == [b"a"]
        assert again.node.replicas.partitions["t", 1].config.retention_ms == 1000


@on_broker()
async def test_stopping_twice_is_stopping_once(broker: RunningBroker) -> None:
    await broker.stop()
    await broker.stop()
    with pytest.raises(ConnectionRefusedError):
        await broker.client()


async def refusal(
    directory: Path, settings: dict[str, str] | None = None, *, portable: bool = False
) -> str:
    """Why a broker does not start; it must be one sentence, and nothing may stay behind."""
    before = asyncio.all_tasks()
    broker, runtime = make_broker(directory, settings, portable=portable)
    try:
        with pytest.raises(StartupError) as refused:
            await broker.start()
        await until(lambda: asyncio.all_tasks() <= before)
    finally:
        runtime.close()
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) > 20
    return message


def test_a_port_that_is_taken(tmp_path: Path, portable: bool) -> None:
    async def main() -> str:
        with socket.create_server((HOST, 0)) as taken:
            port = taken.getsockname()[1]
            return await refusal(
                tmp_path, {"listeners": f"PLAINTEXT://{HOST}:{port}"}, portable=portable
            )

    assert re.fullmatch(
        r"cannot listen on PLAINTEXT://127.0.0.1:\d+: Address already in use", asyncio.run(main())
    )
    asyncio.run(_starts(tmp_path))


async def _starts(directory: Path, settings: dict[str, str] | None = None) -> None:
    async with running(directory, settings):
        pass


def test_a_host_that_is_not_ours(tmp_path: Path, portable: bool) -> None:
    settings = {"listeners": "PLAINTEXT://192.0.2.1:0"}
    message = asyncio.run(refusal(tmp_path, settings, portable=portable))
    assert "cannot listen on PLAINTEXT://192.0.2.1:0" in message


@on_broker(both=False)
async def test_a_directory_that_is_in_use(broker: RunningBroker, tmp_path: Path) -> None:
    assert "locked by another broker" in await refusal(tmp_path)


def test_a_directory_of_another_broker(tmp_path: Path) -> None:
    asyncio.run(_starts(tmp_path))
    message = asyncio.run(refusal(tmp_path, {"broker.id": "5"}))
    assert "belongs to broker 0, not to broker 5" in message


def test_a_directory_of_another_cluster(tmp_path: Path) -> None:
    asyncio.run(_starts(tmp_path / "one"))
    asyncio.run(_starts(tmp_path / "two"))
    shutil.copy(tmp_path / "one/data/meta.properties", tmp_path / "two/data/meta.properties")
    assert "belongs to the cluster" in asyncio.run(refusal(tmp_path / "two"))


def test_a_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no directory")
    assert "data" in asyncio.run(refusal(tmp_path))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_is_not_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "not writable" in asyncio.run(refusal(tmp_path))
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (STORE_FILE, b"no SQLite file" * 100),
        ("meta.properties", b"broker.id=x\n"),
        ("meta.properties", b"\xff\xfe\xfd"),
        ("meta.properties", b"version=9\nbroker.id=0\n"),
    ],
)
def test_a_directory_with_a_damaged_file(tmp_path: Path, name: str, content: bytes) -> None:
    asyncio.run(_starts(tmp_path))
    (tmp_path / "data" / name).write_bytes(content)
    assert str(tmp_path / "data") in asyncio.run(refusal(tmp_path))


def test_a_store_with_a_damaged_node(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def damage() -> None:
        async with store_of(tmp_path / "data") as session:
            await session.create("/brokers/topics/t", b"no JSON")

    asyncio.run(_starts(tmp_path))
    asyncio.run(damage())
    asyncio.run(_starts(tmp_path))  # that topic is set aside, the others are served
    assert "/brokers/topics/t" in caplog.text


def test_configs_of_a_topic_that_nobody_can_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await (await broker.client()).create_topic("t")
            await broker.session.set(znodes.topic_config_path("t"), b"?")
        async with running(tmp_path) as broker:
            assert "path=/config/topics/t error=config is not JSON" in caplog.text
            answer = await (await broker.client()).ask(metadata("t"), 12)
            assert answer.topics[0].error_code == 0
            assert await broker.node.topics.overrides("t") == {}

    asyncio.run(run())


@on_broker(both=False)
async def test_a_store_that_fails(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: object) -> None:
        raise OSError("disk I/O error")

    client = await broker.client()
    await client.create_topic("t")
    monkeypatch.setattr(SqliteJournal, "commit", fail)
    request = CreateTopicsRequest(topics=[creatable("u", 1)], timeout_ms=10_000)
    refused = (await client.ask(request, 7)).topics[0]
    assert refused.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "disk I/O error" in refused.error_message
    reason = await asyncio.wait_for(broker.failed(), DEADLINE_S)
    assert "store" in reason
    assert "disk I/O error" in reason
    await broker.stop()
    assert not (tmp_path / "data" / CLEAN_SHUTDOWN).exists()


# A cluster that is being migrated to KRaft.

KRAFT = znodes.ControllerNode(3000, 0, kraft_controller_epoch=4).encode()


@on_broker(both=False)
async def test_a_kraft_controller_takes_over(broker: RunningBroker, tmp_path: Path) -> None:
    """It elects leaders whom this broker hears nothing of: nobody may write here any more.

    Its disk is as good as ever: the next start has nothing to recover.
    """
    await (await broker.client()).create_topic("t")
    await broker.session.set(znodes.CONTROLLER, KRAFT)
    reason = await asyncio.wait_for(broker.failed(), DEADLINE_S)
    assert reason.startswith("/controller is held by a KRaft controller (epoch 4)")
    assert broker.node.local.broker_epoch == -1
    assert not broker.node.controller.is_active
    await broker.stop()
    assert (tmp_path / "data" / CLEAN_SHUTDOWN).exists()


@pytest.mark.parametrize("is_renewed", [False, True])
def test_nobody_registers_where_a_kraft_controller_leads(tmp_path: Path, is_renewed: bool) -> None:
    async def main() -> None:
        runtime = Runtime.system()
        store = EmbeddedStore(tmp_path / "store", runtime=runtime)
        await store.start()
        other = await store.open_session(60_000)
        config = load_config(
            overrides={"listeners": f"PLAINTEXT://{HOST}:0", "log.dirs": str(tmp_path / "data")}
        )
        broker = Broker(config, runtime, store=store, process_password="its own")
        try:
            if is_renewed:
                await broker.start()
                await broker.retire()  # it would only resign
                await other.create(znodes.CONTROLLER, KRAFT)
                await store.expire_session(broker._session.id)
                assert "KRaft" in await asyncio.wait_for(broker.failed(), DEADLINE_S)
            else:
                await other.create(znodes.CONTROLLER, KRAFT)
                with pytest.raises(StartupError, match="KRaft"):
                    await broker.start()
            registrations = await other.exists(znodes.BROKER_IDS)
            assert registrations is not None
            # A session's node comes and goes.
            assert (registrations.cversion, registrations.num_children) == (2 * is_renewed, 0)
        finally:
            await broker.stop()
            await store.close()
            runtime.close()

    asyncio.run(main())


# An authorizer.


def test_an_authorizer_that_comes_while_the_broker_runs(tmp_path: Path) -> None:
    """It does not register again when its session has ended."""

    async def main() -> None:
        runtime = Runtime.system()
        store = EmbeddedStore(tmp_path / "store", runtime=runtime)
        await store.start()
        other = await store.open_session(60_000)
        settings = {
            "listeners": f"PLAINTEXT://{HOST}:0",
            "log.dirs": str(tmp_path / "data"),
            "zookeeper.connect": "instead.of.one:2181",
        }
        config = load_config(overrides=settings)
        broker = Broker(config, runtime, store=store, process_password="its own")
        try:
            await broker.start()
            await other.create("/kafka-acl")
            await store.expire_session(broker._session.id)
            reason = await asyncio.wait_for(broker.failed(), DEADLINE_S)
            assert reason.startswith("ZooKeeper has the nodes of an authorizer (/kafka-acl)")
            assert await other.children(znodes.BROKER_IDS) == []
        finally:
            await broker.stop()
            await store.close()
            runtime.close()

    asyncio.run(main())


# Directories that the store does not know.


def test_a_directory_that_nobody_knows_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def first() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"kept"))

    async def second() -> None:
        async with running(tmp_path) as broker:
            answer = await (await broker.client()).ask(metadata("t"), 12)
            assert answer.topics[0].error_code != 0

    async def third() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            assert await values_of(broker, "t") == []

    asyncio.run(first())
    log = tmp_path / "data/t-0/00000000000000000000.log"
    content = log.read_bytes()
    assert b"kept" in content
    (tmp_path / "data" / STORE_FILE).unlink()
    asyncio.run(second())
    assert log.read_bytes() == content
    assert "/t-0 reason=the store does not know it" in caplog.text
    asyncio.run(third())
    asides = [path for path in (tmp_path / "data").rglob("*.log") if path.read_bytes() == content]
    assert len(asides) == 1, "a topic of the same name must not be the end of the data"


# Crashes.  What a killed process leaves is what its directory holds at that moment.


async def crash_of(broker: RunningBroker, image: Path) -> None:
    """Copy what a kill would leave now."""
    with contextlib.suppress(shutil.Error):  # a file that was removed meanwhile
        await asyncio.get_running_loop().run_in_executor(
            None, shutil.copytree, broker.data_dir, image / "data"
        )


async def after_crash(
    directory: Path, check: Callable[[RunningBroker], object] = lambda broker: None
) -> None:
    async with running(directory) as broker:
        check(broker)


@on_broker(both=False)
async def test_what_was_appended_survives(broker: RunningBroker, tmp_path: Path) -> None:
    client = await broker.client()
    await client.create_topic("t")
    for number in range(20):
        await client.append("t", batch_of(b"%d" % number))
    await crash_of(broker, tmp_path / "image")
    async with running(tmp_path / "image") as again:
        assert await values_of(again, "t") == [b"%d" % number for number in range(20)]
        assert again.node.metadata.topics["t"].topic_id == broker.node.metadata.topics["t"].topic_id


@pytest.mark.slow
@on_broker(both=False)
async def test_a_topic_made_anew_begins_anew_after_a_crash(
    broker: RunningBroker, tmp_path: Path
) -> None:
    client = await broker.client()
    for number in range(3):
        await client.create_topic("t")
        await crash_of(broker, tmp_path / f"created-{number}")
        assert await client.append("t", batch_of(b"%d" % number)) == 0
        await crash_of(broker, tmp_path / f"appended-{number}")
        await client.ask(delete_topics(6, "t"), 6)
        await crash_of(broker, tmp_path / f"deleted-{number}")
    for number in range(3):
        async with running(tmp_path / f"created-{number}") as again:
            assert await values_of(again, "t") == []
            assert await (await again.client()).append("t", batch_of(b"x")) == 0
        async with running(tmp_path / f"appended-{number}") as again:
            assert await values_of(again, "t") == [b"%d" % number]
        async with running(tmp_path / f"deleted-{number}") as again:
            assert again.node.metadata.topics == {}
            await (await again.client()).create_topic("t")
            assert await values_of(again, "t") == []


@pytest.mark.slow
@on_broker(both=False)
async def test_a_crash_between_rename_and_removal_of_the_nodes(
    broker: RunningBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await broker.client()
    await client.create_topic("t", 2)
    await client.append("t", batch_of(b"old"))
    stop_replicas = roles.stop

    images: list[str] = []

    async def crash_now(what: str) -> None:
        images.append(f"{what}-{len(images)}")
        await crash_of(broker, tmp_path / images[-1])

    async def stop_and_crash(*arguments: Any) -> roles.Codes:
        await crash_now("asked")
        codes = await stop_replicas(*arguments)
        await crash_now("done")
        return codes

    monkeypatch.setattr(roles, "stop", stop_and_crash)
    await client.ask(delete_topics(6, "t"), 6)
    await until(lambda: len(images) == 4)  # first they are stopped, then deleted
    monkeypatch.undo()
    for image in images:
        at_once = {"log.segment.delete.delay.ms": "0"}
        async with running(tmp_path / image, at_once) as again:
            assert again.node.metadata.topics == {}
            assert await again.session.children("/admin/delete_topics") == []
            assert await again.session.children("/brokers/topics") == []
            data_dir = Path(again.data_dir)
            await until(functools.partial(_holds_no_partition, data_dir))
            await (await again.client()).create_topic("t", 2)
            assert await values_of(again, "t") == []


def _holds_no_partition(data_dir: Path) -> bool:
    return not any(data_dir.glob("t*"))


def test_a_deletion_of_which_half_is_written(tmp_path: Path) -> None:
    async def prepare() -> None:
        async with running(tmp_path) as broker:
            await (await broker.client()).create_topic("t", 3)
        async with store_of(tmp_path / "data") as session:
            await session.create(znodes.delete_topic_path("t"))
            for partition in (0, 1):
                await session.delete(znodes.partition_state_path("t", partition))
            await session.delete(znodes.partition_path("t", 0))
            await session.delete(znodes.topic_config_path("t"))

    async def resume() -> None:
        async with running(tmp_path) as broker:
            assert broker.node.metadata.topics == {}
            assert await broker.session.children("/brokers/topics") == []
            assert await broker.session.children("/admin/delete_topics") == []

    asyncio.run(prepare())
    asyncio.run(resume())


def test_a_deletion_of_a_topic_that_is_gone(tmp_path: Path) -> None:
    async def prepare() -> None:
        async with store_of(tmp_path / "data") as session:
            await session.create(znodes.delete_topic_path("absent"))

    async def resume() -> None:
        async with running(tmp_path) as broker:
            assert await broker.session.children("/admin/delete_topics") == []

    asyncio.run(_starts(tmp_path))
    asyncio.run(prepare())
    asyncio.run(resume())


def test_topics_of_which_not_all_is_written(tmp_path: Path) -> None:
    """Between the topic's node and the state of its partitions a broker may be killed."""
    names = {"node only": "a", "parent": "b", "half": "c", "no config": "d"}

    async def prepare() -> None:
        async with store_of(tmp_path / "data") as session:
            for number, name in enumerate(names.values()):
                topic_id = bytes(15) + bytes([number + 1])
                node = znodes.TopicAssignment({0: (0,), 1: (0,), 2: (0,)}, topic_id)
                if name != "d":
                    await session.create(
                        znodes.topic_config_path(name),
                        znodes.encode_config({"retention.ms": "1000"}),
                    )
                await session.create(znodes.topic_path(name), node.encode())
            for name in ("b", "c"):
                await session.create(znodes.partitions_path(name))
            await session.create(znodes.partition_path("c", 1))
            await session.create(znodes.partition_path("c", 2))
            state = znodes.PartitionStateNode(0, 4, (0,), 1)
            await session.create(znodes.partition_state_path("c", 2), state.encode())

    async def resume() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            for name in names.values():
                for partition in range(3):
                    assert await client.append(name, batch_of(b"x"), partition=partition) == 0
                    data, _ = await broker.session.get(znodes.partition_state_path(name, partition))
                    epoch = znodes.PartitionStateNode.decode(data).leader_epoch
                    assert epoch == (4 if (name, partition) == ("c", 2) else 0)

    asyncio.run(_starts(tmp_path))
    asyncio.run(prepare())
    asyncio.run(resume())


def test_a_kill_while_starting_or_stopping_costs_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            client = await broker.client()
            await client.create_topic("t")
            await client.append("t", batch_of(b"a"))
        for _ in range(3):
            broker, runtime = make_broker(tmp_path)
            starting = asyncio.ensure_future(broker.start())
            await turns(3)
            starting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await starting
            runtime.close()
        async with running(tmp_path) as again:
            assert await values_of(again, "t") == [b"a"]

    asyncio.run(main())
