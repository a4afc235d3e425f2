"""Disks that are full or fail because the admin API says so."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from odradek.broker.admin_api.server import AdminServer
from odradek.broker.config import Config, load_config
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.runtime import Runtime
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k35_describe_log_dirs import DescribeLogDirsRequest
from tests.broker.admin_api.asking import get, post, served
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.running import RunningBroker, WatchedFiles, running
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, records_in

pytestmark = pytest.mark.slow

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


@contextlib.asynccontextmanager
async def with_dirs(
    directory: Path, *names: str
) -> AsyncIterator[tuple[AdminServer, RunningBroker]]:
    paths = ",".join(str(directory / name) for name in names)
    async with (
        running(directory, {"log.dirs": paths}) as broker,
        served(running=broker, runtime=broker._runtime) as server,
    ):
        yield server, broker


async def code_of(client: Client, topic: str) -> int:
    return (await client.produce(topic, batch_of(b"x"))).error_code


async def values(client: Client, topic: str) -> list[bytes]:
    return [value for _, value in records_in((await client.fetch(topic)).records)]


@asynchronous
async def test_nothing_is_written_to_a_full_disk_until_it_is_healed(tmp_path: Path) -> None:
    async with with_dirs(tmp_path, "a") as (server, broker):
        client = await broker.client()
        await client.create_topic("t", configs={"segment.bytes": "100"})
        await client.append("t", batch_of(b"before"))
        full = await post(server, f"brokers/{broker.broker_id}/disk_full")
        assert (full.content["state"], full.content["disk"]) == ("running", "full")
        assert [await code_of(client, "t") for _ in range(3)] == [STORAGE_ERROR] * 3
        assert await values(client, "t") == [b"before"]
        (described,) = (await client.ask(DescribeLogDirsRequest(topics=None), 4)).results
        assert (described.error_code, described.usable_bytes) == (0, 0)
        healed = await post(server, f"brokers/{broker.broker_id}/heal_disk")
        assert healed.content["disk"] == "ok"
        await client.append("t", batch_of(b"after"))
        assert (await get(server, "brokers")).content["brokers"] == [healed.content]
    async with running(tmp_path, {"log.dirs": str(tmp_path / "a")}) as again:
        client = await again.client()
        assert await values(client, "t") == [b"before"]
        assert (await client.fetch("t", 1)).records


@asynchronous
async def test_a_failed_directory_goes_offline_with_its_replicas(tmp_path: Path) -> None:
    async with with_dirs(tmp_path, "a", "b") as (server, broker):
        client, at = await broker.client(), f"brokers/{broker.broker_id}"
        for topic in ("t", "u"):
            await client.create_topic(topic)
            await client.append(topic, batch_of(topic.encode()))
        strange = await post(server, f"{at}/fail_disk", log_dir="/elsewhere")
        assert strange.status == 400
        assert strange.content["error"] == (
            f"log_dir: broker {broker.broker_id} has {tmp_path}/a, {tmp_path}/b"
        )
        own_process = await post(server, f"{at}/fail_disk", expire=True)
        assert own_process.status == 409
        failed = await post(server, f"{at}/fail_disk", log_dir=str(tmp_path / "b"))
        assert (failed.content["state"], failed.content["disk"]) == ("running", "failed")
        assert [await code_of(client, topic) for topic in ("t", "u")] == [0, STORAGE_ERROR]
        await post(server, f"{at}/heal_disk", log_dir=str(tmp_path / "b"))
        assert await code_of(client, "u") == STORAGE_ERROR
    async with running(tmp_path, {"log.dirs": f"{tmp_path}/a,{tmp_path}/b"}) as again:
        assert await values(await again.client(), "u") == [b"u"]


@asynchronous
async def test_the_only_broker_ends_with_its_last_directory(tmp_path: Path) -> None:
    async with with_dirs(tmp_path, "a") as (server, broker):
        client = await broker.client()
        await client.create_topic("t")
        failed = await post(server, f"brokers/{broker.broker_id}/fail_disk")
        assert failed.content["disk"] == "failed"
        assert await broker.failed() == (
            f"the only log directory is offline: {tmp_path}/a: Input/output error"
        )


@asynchronous
async def test_one_of_several_brokers_halts_and_starts_on_a_healed_disk(tmp_path: Path) -> None:
    def load(own: Mapping[str, str]) -> Config:
        return load_config(overrides={"listeners": "PLAINTEXT://127.0.0.1:0", **own})

    runtime = Runtime.system()
    runtime.files = WatchedFiles()
    cluster = LocalCluster(str(tmp_path), 2, load, runtime)
    await cluster.start()
    try:
        async with served(running=cluster, runtime=runtime) as server:
            failed = await post(server, "brokers/1/fail_disk", expire=True)
            assert (failed.content["state"], failed.content["disk"]) == ("down", "failed")
            await until(lambda: list(cluster.brokers[0].node.metadata.brokers) == [0])
            refused = await post(server, "brokers/1/start")
            assert refused.status == 409
            assert "Input/output error" in refused.content["error"]
            assert (await post(server, "brokers/1/fail_disk")).content["state"] == "down"
            await post(server, "brokers/1/heal_disk")
            started = await post(server, "brokers/1/start")
            assert (started.content["state"], started.content["disk"]) == ("running", "ok")
            assert list((await get(server, "brokers")).content["brokers"][0].values())[-1] == "ok"
    finally:
        await cluster.stop()
        runtime.close()


@asynchronous
async def test_a_restored_snapshot_heals(tmp_path: Path) -> None:
    async with with_dirs(tmp_path, "a") as (server, broker):
        client = await broker.client()
        await client.create_topic("t")
        taken = (await post(server, "snapshots")).content["id"]
        await client.append("t", batch_of(b"v"))
        await post(server, f"brokers/{broker.broker_id}/disk_full")
        assert await code_of(client, "t") == STORAGE_ERROR
        assert (await post(server, f"snapshots/{taken}/restore")).status == 200
        client = await broker.client()
        assert await client.append("t", batch_of(b"w")) == 0
