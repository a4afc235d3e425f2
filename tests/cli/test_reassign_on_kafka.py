"""Moving replicas between two brokers of Kafka 3.9.2, beside Kafka's own tool."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka.admin import AdminClient

from odradek.cli import main
from tests.kafka.apache import Kafka39
from tests.kafka.java import ToolRunner
from tests.support.waiting import until

from .conftest import PATIENTLY

pytestmark = [
    pytest.mark.java,
    pytest.mark.wire,
    pytest.mark.timeout(400),
]

LINES = ("x" * 900 + "\n").encode() * 8000


class SecondBroker(Kafka39):
    """Another broker beside the ZooKeeper of the first."""

    def __init__(self, directory: Path, first: Kafka39) -> None:
        settings = {"broker.id": "1", "broker.rack": "b"}
        super().__init__(directory, settings, heap_mb=256)
        self.first = first

    @property
    def zookeeper(self) -> str:
        return self.first.zookeeper

    def _prepare(self) -> None:
        pass


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Kafka39, Kafka39]]:
    home = tmp_path_factory.mktemp("two")
    first = Kafka39(home / "0", {"broker.rack": "a"}, heap_mb=256)
    second = SecondBroker(home / "1", first)
    try:
        first.start()
        second.start()
        admin = AdminClient({"bootstrap.servers": first.bootstrap_servers})
        until(lambda: len(admin.list_topics(timeout=30).brokers) == 2)  # the first knows it, too
        yield first, second
    finally:
        second.close()
        first.close()


class Cluster:
    def __init__(
        self, brokers: tuple[Kafka39, Kafka39], directory: Path, tools: ToolRunner
    ) -> None:
        self.first, self.second = brokers
        self.plan = directory / "plan.json"
        self.tools = tools

    def run(self, *arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        command = [*arguments, *PATIENTLY, "-b", self.first.bootstrap_servers]
        done = CliRunner().invoke(main, command, input=stdin, catch_exceptions=False)
        assert done.exit_code == code, (arguments, done.stderr)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json"))

    def tool(self, *arguments: str) -> str:
        """Kafka's own."""
        where = ("--bootstrap-server", self.first.bootstrap_servers)
        plan = ("--reassignment-json-file", str(self.plan))
        return self.tools.run("ReassignPartitionsCommand", *where, *plan, *arguments).stdout

    def configs(self, topic: str) -> dict[str, dict[str, str]]:
        resources = (("--topic", topic), ("--broker", "0"), ("--broker", "1"))
        found = {" ".join(r): self.json("configs", "describe", *r) for r in resources}
        return {name: {c["name"]: c["value"] for c in own} for name, own in found.items()}


@pytest.fixture
def cluster(
    brokers: tuple[Kafka39, Kafka39], tmp_path: Path, runners: Mapping[str, ToolRunner]
) -> Cluster:
    return Cluster(brokers, tmp_path, runners["3.9.2"])


def test_a_topic_that_moves(cluster: Cluster) -> None:
    run = cluster.run
    run("topics", "create", "t", "--assignment", "0,0")
    for partition in ("0", "1"):  # lines without keys may all go to one
        run("produce", "t", "-p", partition, stdin=LINES)
    spread = "reassign", "plan", "--topics", "t", "--brokers", "1", "-o", str(cluster.plan)
    assert "2 replicas to copy, 1" in run(*spread)
    back = json.loads(run("reassign", "execute", str(cluster.plan), "--throttle", "100K"))
    assert [p["replicas"] for p in back["partitions"]] == [[0], [0]]
    ours = until(lambda: _throttled(cluster))
    moving = cluster.json("reassign", "status")
    assert [(m["adding"], m["removing"], m["state"]) for m in moving] == [([1], [0], "moving")] * 2
    moving = until(lambda: _begun(cluster))
    assert moving["copied_bytes"] < moving["to_copy_bytes"]
    assert "are still being moved" in run("reassign", "status", "--remove-throttles", code=1)
    assert "is being moved already" in run("reassign", "execute", str(cluster.plan), code=1)
    assert "is being moved" in run("reassign", "plan", "--topics", "t", "--brokers", "1", code=1)

    run("reassign", "cancel", "--topic", "t:0")
    until(lambda: _states(cluster) == ["not moved", "moving"])
    run("reassign", "cancel", "--all")
    run("reassign", "status", "--remove-throttles")
    until(lambda: not any(cluster.configs("t").values()))

    cluster.tool("--execute", "--throttle", str(100 << 10))
    until(lambda: cluster.configs("t") == ours)
    cluster.tool("--cancel")

    run("reassign", "execute", str(cluster.plan))
    until(lambda: "complete" in cluster.tool("--verify"))
    until(lambda: _states(cluster) == ["done", "done"])


def _throttled(cluster: Cluster) -> Any:
    """The settings of the throttle, once the topic and both brokers show theirs."""
    found = cluster.configs("t")
    return found if all(found.values()) else None


def _states(cluster: Cluster) -> list[str]:
    return [s["state"] for s in cluster.json("reassign", "status", str(cluster.plan))]


def _begun(cluster: Cluster) -> Any:
    return next((m for m in cluster.json("reassign", "status") if m["copied_bytes"]), None)


def test_a_broker_that_goes(cluster: Cluster) -> None:
    run = cluster.run
    assigned = cluster.json("topics", "plan", "-p", "2", "-r", "2", "--start", "0")["assignment"]
    assert assigned == "0:1,1:0"
    run("topics", "create", "u", "--assignment", assigned)
    run("topics", "create", "v", "--assignment", "1:0")
    assert "no broker is left" in run("reassign", "plan", "--drain", "1", code=1)
    described = until(lambda: _whole(cluster))
    assert [(b["broker"], b["rack"], b["speaks"]) for b in described["brokers"]] == [
        (0, "a", "3.9 - 4.0"),
        (1, "b", "3.9 - 4.0"),
    ]
    cluster.second.stop()
    until(lambda: _down(cluster) == ([1], {("u", (0,)), ("v", (0,))}))
    assert cluster.json("cluster", "describe")["controller"] == 0
    cluster.second.start()
    until(lambda: not cluster.json("cluster", "describe")["under_replicated"])
    run("elect-leaders", "--topic", "v:0")
    # A broker may be asked that the controller has not told yet.
    until(lambda: _leaders(cluster) in ([0, 0, 1], [0, 1, 1]))


def _whole(cluster: Cluster) -> Any:
    """What is described, once whoever is asked knows of both brokers and of nothing that lacks."""
    described = cluster.json("cluster", "describe")
    lacking = described["offline"] + described["under_replicated"] + described["brokers_down"]
    return described if len(described["brokers"]) == 2 and not lacking else None


def _leaders(cluster: Cluster) -> list[int]:
    described = cluster.json("topics", "describe", "u", "v")
    return [p["leader"] for t in described for p in t["partitions"]]


def _down(cluster: Cluster) -> tuple[list[int], set[tuple[str, tuple[int, ...]]]]:
    """Brokers that are down, and what is in sync of the topics that miss them."""
    described = cluster.json("cluster", "describe")
    lacking = {(p["topic"], tuple(p["isr"])) for p in described["under_replicated"]}
    return described["brokers_down"], lacking
