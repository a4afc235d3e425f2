"""`odradek zookeeper dump`, of an embedded store and of a real ZooKeeper."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.cli.stopped import make_store, run, sentence
from tests.kafka.zookeeper import ZooKeeper, zookeeper

NODES = {
    "/brokers": b"",
    "/brokers/topics": b"",
    "/brokers/topics/t": b'{"version":3}',
    "/broken": b"a\n\xff\tb",
    "/controller_epoch": b"0",
}
LINES = [
    "/\t0\tpersistent",
    "/broken\t0\tpersistent\ta\\n\\xff\\tb",
    "/brokers\t0\tpersistent",
    "/brokers/topics\t0\tpersistent",
    '/brokers/topics/t\t0\tpersistent\t{"version":3}',
    "/controller_epoch\t0\tpersistent\t0",
]


def test_a_store_s_nodes(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", NODES)
    result = run("zookeeper", "dump", "--data-dir", store)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines() == LINES
    below = run("zookeeper", "dump", "--data-dir", store, "/brokers/topics")
    assert below.stdout.splitlines() == LINES[3:5]


def test_as_json(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", NODES)
    shown = json.loads(run("zookeeper", "dump", "--data-dir", store, "--json").stdout)
    assert [node["path"] for node in shown] == ["/", *sorted(NODES)]
    assert shown[-2] == {
        "path": "/brokers/topics/t",
        "version": 0,
        "ephemeral": False,
        "data": '{"version":3}',
    }
    assert "data" not in shown[1]
    assert shown[1]["data_base64"] == "YQr/CWI="


def test_refusals(tmp_path: Path) -> None:
    store = make_store(tmp_path / "store", NODES)
    missing = sentence(run("zookeeper", "dump", "--data-dir", store, "/nowhere"))
    assert missing == f"there is no node /nowhere in {store}\n"
    empty = sentence(run("zookeeper", "dump", "--data-dir", tmp_path))
    assert empty.startswith(f"there is no store of Odradek in {tmp_path}")
    assert sentence(run("zookeeper", "dump", "--data-dir", store, "a//b")).startswith(
        "invalid path"
    )
    address = sentence(run("zookeeper", "dump", "--zookeeper", "a b:1"))
    assert address == "'a b:1' is not HOST:PORT[,HOST:PORT][/chroot]\n"
    assert run("zookeeper", "dump", "--data-dir", "x", "--zookeeper", "h:1").exit_code == 2


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with zookeeper() as running:
        yield running


@pytest.mark.java
def test_the_nodes_in_zookeeper(server: ZooKeeper) -> None:
    client = KazooClient(hosts=server.address)
    client.start()
    try:
        client.create("/kafka")
        for path, data in NODES.items():
            client.create(f"/kafka{path}", data)
        client.set("/kafka/brokers", b"x")
        client.create("/kafka/controller", b"1", ephemeral=True)
        result = run("zookeeper", "dump", "--zookeeper", f"{server.address}/kafka")
    finally:
        client.stop()
        client.close()
    old, new = "/brokers\t0\tpersistent", "/brokers\t1\tpersistent\tx"
    lines = [line.replace(old, new) for line in LINES]
    assert result.stdout.splitlines() == [*lines[:5], "/controller\t0\tephemeral\t1", lines[5]]


@pytest.mark.java
def test_nothing_is_made_in_zookeeper(server: ZooKeeper) -> None:
    refused = run("zookeeper", "dump", "--zookeeper", f"{server.address}/missing")
    assert sentence(refused) == f"there is no node / in {server.address}/missing\n"
    top = run("zookeeper", "dump", "--zookeeper", server.address)
    paths = [line.split("\t")[0] for line in top.stdout.splitlines()]
    assert "/missing" not in paths
    assert paths[0] == "/"
    assert not any(path.startswith("/zookeeper") for path in paths)
