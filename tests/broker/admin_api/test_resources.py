"""What the admin API does to brokers: each route on a real cluster of one process."""

import asyncio
import base64
import contextlib
import types
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest

from odradek.broker.admin_api import groups, records
from odradek.broker.admin_api.server import AdminServer
from odradek.broker.config import Config, load_config
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.runtime import Runtime
from tests.broker.admin_api.asking import Reply, ask, get, post, served
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.group_requests import commit
from tests.broker.running import RunningBroker, WatchedFiles, running
from tests.support.awaiting import until
from tests.support.client import Client

pytestmark = pytest.mark.slow


@contextlib.asynccontextmanager
async def cluster(directory: Path) -> AsyncIterator[tuple[AdminServer, LocalCluster]]:
    def load(own: Mapping[str, str]) -> Config:
        fixed = {"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}
        return load_config(overrides={**fixed, **own})

    runtime = Runtime.system()
    runtime.files = WatchedFiles()
    brokers = LocalCluster(str(directory), 3, load, runtime)
    await brokers.start()
    try:
        async with served(running=brokers, runtime=runtime) as server:
            yield server, brokers
    finally:
        await brokers.stop()
        runtime.close()


@contextlib.asynccontextmanager
async def one(directory: Path) -> AsyncIterator[tuple[AdminServer, RunningBroker]]:
    async with (
        running(directory) as broker,
        served(running=broker, runtime=broker._runtime) as server,
    ):
        yield server, broker


async def coordinator_of_g(server: AdminServer) -> int:
    """Make the topic of groups, of which all brokers know then, and say who coordinates `g`."""
    coordinator = (await get(server, "coordinators/g")).content["coordinator"]
    await get(server, "wait/topics/__consumer_offsets")
    return int(coordinator)


def refused(reply: Reply, status: int) -> str:
    assert reply.status == status, reply
    return str(reply.content["error"])


def states(reply: Reply) -> dict[int, str]:
    return {each["id"]: each["state"] for each in reply.content["brokers"]}


@asynchronous
async def test_brokers_are_stopped_killed_and_started(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, brokers):
        assert states(await get(server, "brokers")) == dict.fromkeys(range(3), "running")
        port = brokers.brokers[1].port
        assert (await post(server, "brokers/1/stop")).content["state"] == "down"
        assert states(await get(server, "brokers")) == {0: "running", 1: "down", 2: "running"}
        assert "not running" in refused(await post(server, "brokers/1/stop"), 409)
        assert "not running" in refused(await post(server, "brokers/1/kill"), 409)
        started = await post(server, "brokers/1/start")
        assert started.content == {
            "id": 1,
            "state": "running",
            "host": "127.0.0.1",
            "port": port,
            "rack": None,
            "disk": "ok",
        }
        assert (await post(server, "brokers/1/start")).content == started.content
        assert (await post(server, "brokers/2/kill", expire=True)).status == 200
        assert list(brokers.brokers) == [0, 1]
        for number in ("3", "-1", "1x", "01", "%C2%B2"):
            assert "which has 0, 1, 2" in refused(await post(server, f"brokers/{number}/stop"), 404)
        await post(server, "brokers/0/stop")
        await post(server, "brokers/1/stop")
        assert "no broker" in refused(await get(server, "topics"), 409)
        assert "no broker" in refused(await post(server, "topics", name="t"), 409)


@asynchronous
async def test_leaders_are_moved(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, brokers):
        created = await post(server, "topics", name="t", partitions=3, replication_factor=3)
        before = {each["partition"]: each["leader"] for each in created.content["partitions"]}
        replicas = created.content["partitions"][0]["replicas"]
        moved = await post(server, "topics/t/partitions/0/move_leader")
        assert moved.content["leader"] == replicas[1]
        moved = await post(server, "topics/t/partitions/0/move_leader", to=replicas[2])
        assert moved.content == {"topic": "t", "partition": 0, "leader": replicas[2]}
        again = await post(server, "topics/t/partitions/0/move_leader", to=replicas[2])
        assert again.status == 200
        for broker in brokers.brokers.values():
            state = broker.node.metadata.partition("t", 0)
            assert state is not None
            assert state.leader == replicas[2]
        shuffled = {
            each["partition"]: each["leader"]
            for each in (await post(server, "shuffle_leaders")).content["leaders"]
        }
        assert list(shuffled) == [0, 1, 2]
        assert all(before[number] != shuffled[number] for number in (1, 2))
        assert "is not in sync" in refused(
            await post(server, "topics/t/partitions/0/move_leader", to=7), 409
        )
        for number in ("3", "x", "-1", "9" * 20):
            path = f"topics/t/partitions/{number}/move_leader"
            assert "there is no partition" in refused(await post(server, path), 404)
        assert refused(await post(server, "shuffle_leaders", topic="nosuch"), 404)
        await post(server, "topics", name="alone", replication_factor=1)
        sentence = refused(await post(server, "topics/alone/partitions/0/move_leader"), 409)
        assert "has no other broker in sync" in sentence
        await post(server, "shuffle_leaders", topic="alone")
        moved = await post(server, "coordinators/g/move", to=1)
        assert moved.content == (await get(server, "coordinators/g")).content == {"coordinator": 1}
        sentence = refused(await post(server, "coordinators/g/move", to=7), 409)
        assert "broker 7 is not in sync with __consumer_offsets-0: those are" in sentence
        assert "group" in refused(await post(server, "coordinators/g/move", of="topic"), 400)


@asynchronous
async def test_a_wait_for_a_topic_is_not_content_with_a_leader_that_was_killed(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path) as (server, brokers):
        created = await post(server, "topics", name="t", partitions=3, replication_factor=3)
        killed = created.content["partitions"][0]["leader"]
        await post(server, f"brokers/{killed}/kill", expire=True)
        shown = await ask(server, path="/admin/v1/wait/topics/t")
        leaders = [each["leader"] for each in shown.content["partitions"]]
        for broker in brokers.brokers.values():
            known = broker.node.metadata.topics["t"].partitions
            assert [state.leader for state in known] == leaders
        assert killed not in leaders
        await post(server, f"brokers/{leaders[0]}/kill")  # its session goes on for a while
        in_vain = await ask(server, path="/admin/v1/wait/topics/t?timeout=0")
        sentence = f"broker {leaders[0]}, which leads partitions of topic t, is down"
        assert sentence in refused(in_vain, 504)


@asynchronous
async def test_topics_are_created_listed_and_deleted(tmp_path: Path) -> None:
    async with one(tmp_path) as (server, broker):
        configs = {"retention.ms": 60000, "cleanup.policy": "delete", "preallocate": False}
        created = await post(server, "topics", name="t", partitions=2, configs=configs)
        assert created.status == 201
        assert [each["leader"] for each in created.content["partitions"]] == [0, 0]
        assert broker.node.find("t", 0).config.retention_ms == 60000
        assert (await get(server, "topics/t")).content == created.content
        assert (await get(server, "coordinators/g")).content == {"coordinator": 0}
        names = [each["name"] for each in (await get(server, "topics")).content["topics"]]
        assert names == ["t"]
        all_of_them = (await get(server, "topics?internal=true")).content["topics"]
        assert [each["name"] for each in all_of_them] == ["__consumer_offsets", "t"]
        assert "TOPIC_ALREADY_EXISTS" in refused(await post(server, "topics", name="t"), 409)
        assert "INVALID_TOPIC" in refused(await post(server, "topics", name="a/b"), 400)
        assert "INVALID_CONFIG" in refused(
            await post(server, "topics", name="c", configs={"retention.ms": "soon"}), 400
        )
        assert (await ask(server, "DELETE", "/admin/v1/topics/t")).content == {}
        assert "there is no topic 't'" in refused(await get(server, "topics/t"), 404)
        assert refused(await ask(server, "DELETE", "/admin/v1/topics/t"), 404)


@asynchronous
async def test_records_are_written_and_read(tmp_path: Path) -> None:
    async with one(tmp_path) as (server, _):
        await post(server, "topics", name="t", partitions=3)
        written = await post(
            server,
            "topics/t/records",
            records=[
                {"key": "k", "value": "é", "timestamp": 5, "headers": [["a", "1"], ["a", None]]},
                {"value": None, "partition": 0},
                {"key": "k", "value": ""},
            ],
        )
        assert written.status == 201
        places = [(each["partition"], each["offset"]) for each in written.content["records"]]
        assert places == [(2, 0), (0, 0), (2, 1)]  # Java's producer puts k into 2 of 3
        read = (await get(server, "topics/t/records")).content
        values = [(each["partition"], each["offset"], each["value"]) for each in read["records"]]
        assert values == [(0, 0, None), (2, 0, "é"), (2, 1, "")]
        first = read["records"][1]
        assert (first["key"], first["timestamp"]) == ("k", 5)
        assert first["headers"] == [["a", "1"], ["a", None]]
        read = (await get(server, "topics/t/records?partition=2&offset=1&limit=1")).content
        assert [each["offset"] for each in read["records"]] == [1]
        assert read["partitions"] == [{"partition": 2, "next_offset": 2, "high_watermark": 2}]
        read = (await get(server, "topics/t/records?limit=2")).content
        assert [end["next_offset"] for end in read["partitions"]] == [1, 0, 1]
        binary = base64.b64encode(b"\xff\0").decode()
        await post(
            server,
            "topics/t/records",
            records=[{"value": binary, "partition": 1}],
            encoding="base64",
        )
        path = "topics/t/records?partition=1"
        assert "ask with encoding=base64" in refused(await get(server, path), 409)
        read = (await get(server, f"{path}&encoding=base64")).content
        assert read["records"][0]["value"] == binary


@asynchronous
async def test_an_answer_has_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "ANSWER_BYTES_MAX", 1000)
    async with one(tmp_path) as (server, _):
        await post(server, "topics", name="t")
        for _ in range(3):
            values = [{"value": "x" * 300} for _ in range(3)]
            await post(server, "topics/t/records", records=values)
        await post(server, "topics/t/records", records=[{"value": "x" * 5000}])
        offset, read = 0, []
        while offset < 10:
            content = (await get(server, f"topics/t/records?offset={offset}")).content
            assert content["records"][0]["offset"] == offset
            read.append(len(content["records"]))
            offset = content["partitions"][0]["next_offset"]
        assert read == [3, 3, 3, 1]


@asynchronous
async def test_bad_records_are_refused(tmp_path: Path) -> None:
    async with one(tmp_path) as (server, _):
        await post(server, "topics", name="t", configs={"max.message.bytes": 1000})
        path = "topics/t/records"
        assert "value is missing" in refused(await post(server, path, records=[{}]), 400)
        not_base64 = await post(server, path, records=[{"value": "é"}], encoding="base64")
        assert "is not base64" in refused(not_base64, 400)
        large = await post(server, path, records=[{"value": "x" * 2000}])
        assert "t-0: MESSAGE_TOO_LARGE" in refused(large, 409)
        elsewhere = [{"value": "a"}, {"value": "b", "partition": 1}]
        assert "no partition 1 of t" in refused(await post(server, path, records=elsewhere), 404)
        assert (await get(server, path)).content["records"] == []
        assert (await post(server, path, records=[])).content == {"records": []}
        assert refused(await post(server, "topics/u/records", records=[]), 404)
        assert refused(await get(server, "topics/u/records"), 404)
        assert "ends at offset 0" in refused(await get(server, f"{path}?offset=1"), 409)


@asynchronous
async def test_groups_are_described(tmp_path: Path) -> None:
    async with one(tmp_path) as (server, _):
        assert (await get(server, "groups")).content == {"groups": []}
        assert "there is no group" in refused(await get(server, "groups/g"), 404)
        coordinator = await get(server, "coordinators/tx?of=transaction")
        assert coordinator.content == {"coordinator": 0}


@asynchronous
async def test_groups_are_shown_once_they_are_loaded(tmp_path: Path) -> None:
    async with one(tmp_path) as (server, broker):
        await post(server, "topics", name="t")
        await coordinator_of_g(server)
        client = await broker.client()
        await client.ask(commit("g", "t", {0: 1}), 8)
        coordinator = broker.node.groups
        assert coordinator._shards is not None
        number = await coordinator.topic.find_partition("g")
        led = coordinator._shards._led[number]
        led.is_loading = True
        other = next(
            name for name in map(str, range(9)) if coordinator.topic.partition_of(name) != number
        )
        assert "there is no group" in refused(await get(server, f"groups/{other}"), 404)
        asked = [asyncio.ensure_future(get(server, path)) for path in ("groups", "groups/g")]
        await until(lambda: len(coordinator.changes) == len(asked), "both requests wait")
        led.is_loading = False
        coordinator.changes.wake()
        listed, shown = await asyncio.gather(*asked)
        assert [each["group_id"] for each in listed.content["groups"]] == ["g"]
        assert [each["offset"] for each in shown.content["offsets"]] == [1]


@asynchronous
async def test_a_group_whose_coordinator_is_down_may_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups, "LOADING_S_MAX", 0.1)
    async with cluster(tmp_path) as (server, _):
        coordinator = await coordinator_of_g(server)
        assert refused(await get(server, "groups/g"), 404)
        await post(server, f"brokers/{coordinator}/kill")
        text = f"broker {coordinator}, which coordinates group 'g', is down"
        assert text in refused(await get(server, "groups/g"), 504)
        assert (await get(server, "groups")).content == {"groups": []}


@asynchronous
async def test_a_paused_broker_that_coordinated_a_group_hides_no_other(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, brokers):
        await post(server, "topics", name="t", replication_factor=3)
        await coordinator_of_g(server)
        old, new = (
            broker_id
            for broker_id, broker in brokers.brokers.items()
            if not broker.node.controller.is_active
        )
        await post(server, "coordinators/g/move", to=old)
        client = await Client.connect(brokers.brokers[old].port)
        await client.ask(commit("g", "t", {0: 1}), 8)
        await client.close()
        await post(server, f"brokers/{old}/pause")
        await post(server, "coordinators/g/move", to=new)
        shown = (await get(server, "groups/g")).content
        assert shown["coordinator"] == new
        listed = (await get(server, "groups")).content["groups"]
        assert [(each["group_id"], each["coordinator"]) for each in listed] == [("g", new)]
        await post(server, f"brokers/{old}/resume")


@asynchronous
async def test_a_group_of_another_process_is_elsewhere(tmp_path: Path) -> None:
    async with cluster(tmp_path) as (server, brokers):
        coordinator = await coordinator_of_g(server)
        assert refused(await get(server, "groups/g"), 404)
        broker = brokers.brokers[(coordinator + 1) % 3]
        alone = types.SimpleNamespace(broker_ids=[broker.node.broker_id], brokers={0: broker})
        async with served(running=alone, runtime=brokers._runtime) as other:
            assert "is not in this process" in refused(await get(other, "groups/g"), 421)
            assert (await get(other, "groups")).content == {"groups": []}
