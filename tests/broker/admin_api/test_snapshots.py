"""Snapshots by HTTP: what is answered, and what is refused in one sentence."""

import asyncio
from pathlib import Path
from typing import Any

from odradek.broker.coordination.tree import Tree
from odradek.broker.snapshots import snapshots as snapshots_module
from odradek.broker.snapshots.snapshots import Snapshots
from tests.broker.admin_api.asking import ask, served
from tests.broker.requests import delete_topics
from tests.broker.running import on_broker, running
from tests.support.messages import batch_of

PATH = "/admin/v1/snapshots"


def is_there(directory: str) -> bool:
    return Path(directory).exists()


@on_broker(both=False)
async def test_a_snapshot_is_taken_restored_and_removed(broker: Any) -> None:
    async with served(running=broker) as server:
        server._controls.runtime = broker._runtime
        client = await broker.client()
        await client.create_topic("seed")
        taken = await ask(server, "POST", PATH)
        assert (taken.status, sorted(taken.content)) == (201, ["directory", "id"])
        await client.create_topic("new")
        await client.append("seed", batch_of(b"1"))
        one = f"{PATH}/{taken.content['id']}"
        restored = await ask(server, "POST", f"{one}/restore")
        assert restored.status == 200
        assert restored.content == {"dropped_topics": ["new"], "rewound_partitions": 1}
        await (await broker.client()).ask(delete_topics(6, "seed"), 6)
        refused = await ask(server, "POST", f"{one}/restore")
        assert refused.status == 409
        assert refused.content["error"] == (
            "topic seed was deleted, which can't be undone in running brokers: start them on a "
            f"copy of {taken.content['directory']}"
        )
        assert is_there(taken.content["directory"])
        assert (await ask(server, "DELETE", one)).content == {}
        assert not is_there(taken.content["directory"])
        for method, path in (("DELETE", one), ("POST", f"{one}/restore")):
            missing = await ask(server, method, path)
            assert missing.status == 404
            assert "there is no snapshot" in missing.content["error"]
        wrong = await ask(server, "POST", PATH, body=b'{"name": "x"}')
        assert (wrong.status, wrong.content["error"][:6]) == (400, "'name'")


def test_what_cannot_be_taken_is_refused_in_a_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    async def main() -> None:
        two = f"{tmp_path}/a,{tmp_path}/b"
        async with running(tmp_path, {"log.dirs": two}) as broker, served(running=broker) as server:
            server._controls.runtime = broker._runtime
            refused = await ask(server, "POST", PATH)
            assert refused.status == 409
            assert "no snapshot: snapshots need all logs in one directory" in str(refused.content)
            monkeypatch.setattr(broker, "store", Tree())  # as good as ZooKeeper's
            refused = await ask(server, "POST", PATH)
            assert "with zookeeper.connect there are no snapshots" in refused.content["error"]

    asyncio.run(main())


@on_broker(both=False)
async def test_their_number_is_limited(broker: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(snapshots_module, "SNAPSHOTS_MAX", 1)
    async with served(running=broker) as server:
        server._controls.snapshots = Snapshots(broker, broker._runtime)
        assert (await ask(server, "POST", PATH)).status == 201
        refused = await ask(server, "POST", PATH)
        assert refused.content == {
            "error": "no snapshot: there are 1 snapshots already: delete some"
        }
