"""Moving replicas between three brokers of ours, and looking at them."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.testing import Broker
from tests.kafka.java import ToolRunner
from tests.support.waiting import until

from .conftest import PATIENTLY

pytestmark = [
    pytest.mark.wire,
    pytest.mark.timeout(300),
]

DEADLINE_S = 60.0
Run = Callable[..., str]
# However low a throttle is, a fetch brings a batch each 11 s: with fetches of a megabyte, as they
# are else, 4 MiB have come after half a minute, which two JVMs may take on a slow machine.
SMALL_FETCHES = {"replica.fetch.max.bytes": str(16 << 10)}


@pytest.fixture(scope="module")
def brokers() -> Iterator[Broker]:
    with Broker(brokers=3, settings=SMALL_FETCHES) as broker:
        yield broker


@pytest.fixture
def run(brokers: Broker) -> Run:
    def run(*arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        command = [*arguments, *PATIENTLY, "-b", brokers.bootstrap_servers]
        done = CliRunner().invoke(main, command, input=stdin, catch_exceptions=False)
        assert done.exit_code == code, (arguments, done.stderr)
        return done.stdout if code == 0 else done.stderr

    return run


def replicas(run: Run, topic: str) -> list[list[int]]:
    (described,) = json.loads(run("topics", "describe", topic, "--json"))
    return [partition["replicas"] for partition in described["partitions"]]


def test_a_broker_is_drained_and_gets_its_share_again(run: Run, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    run("topics", "create", "t", "--assignment", "0:1,1:2,2:0")
    for partition in range(3):
        run("produce", "t", "-p", str(partition), stdin=b"record\n" * 1000)
    assert "2 replicas to copy" in run("reassign", "plan", "--drain", "2", "-o", plan)
    back = tmp_path / "back.json"
    back.write_text(run("reassign", "execute", plan))

    def is_done(path: str) -> bool:
        states = json.loads(run("reassign", "status", path, "--json"))
        return all(state["state"] == "done" for state in states)

    until(lambda: is_done(plan))
    until(lambda: not any(2 in some for some in replicas(run, "t")))
    described = until(lambda: _with_replicas(run, [3, 3, 0]))
    assert not described["offline"]
    assert run("consume", "t", "--until", "now").count("record") == 3000

    run("reassign", "execute", str(back))
    until(lambda: is_done(str(back)))
    until(lambda: replicas(run, "t") == [[0, 1], [1, 2], [2, 0]])
    assert run("reassign", "status") == "nothing is being moved\n"
    run("reassign", "cancel", "--all")


def _with_replicas(run: Run, counts: list[int]) -> Any:
    described = json.loads(run("cluster", "describe", "--json"))
    found = [broker["replicas"] for broker in described["brokers"]]
    return described if found == counts and not described["under_replicated"] else None


def configs(run: Run, topic: str) -> dict[str, dict[str, str]]:
    resources = ("--topic", topic), *(("--broker", str(broker)) for broker in range(3))
    found = {" ".join(r): json.loads(run("configs", "describe", *r, "--json")) for r in resources}
    return {name: {c["name"]: c["value"] for c in own} for name, own in found.items()}


def written(run: Run, topic: str, tmp_path: Path, replicas: list[int]) -> str:
    """The path of a plan for a new topic with 4 MiB."""
    run("topics", "create", topic, "--assignment", "0:1")
    run("produce", topic, stdin=(b"x" * 1023 + b"\n") * (4 << 10))
    plan = tmp_path / f"{topic}.json"
    partitions = [{"topic": topic, "partition": 0, "replicas": replicas}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(plan)


def in_sync(run: Run, topic: str) -> list[int]:
    (described,) = json.loads(run("topics", "describe", topic, "--json"))
    (partition,) = described["partitions"]
    return list(partition["isr"])


def unthrottle(run: Run) -> None:
    """Let go on what would take hours."""
    rates = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
    changes = [word for rate in rates for word in ("--delete", rate)]
    for broker in range(3):
        run("configs", "alter", "--broker", str(broker), *changes)


def test_what_is_throttled_is_slow_and_nothing_else(run: Run, tmp_path: Path) -> None:
    plans = {topic: written(run, topic, tmp_path, [0, 1, 2]) for topic in ("slow", "quick")}
    rates = "--throttle", "1K", "--replica-alter-log-dirs-throttle", "2M"
    run("reassign", "execute", plans["slow"], *rates)
    rate = str(1 << 10)
    of_brokers = {
        "leader.replication.throttled.rate": rate,
        "follower.replication.throttled.rate": rate,
        "replica.alter.log.dirs.io.max.bytes.per.second": str(2 << 20),
    }
    of_topic = {
        "leader.replication.throttled.replicas": "0:0,0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    set_ = {"--topic slow": of_topic} | dict.fromkeys(
        ("--broker 0", "--broker 1", "--broker 2"), of_brokers
    )
    until(lambda: configs(run, "slow") == set_)
    run("reassign", "execute", plans["quick"])
    until(lambda: len(in_sync(run, "quick")) == 3)
    run("reassign", "status", plans["quick"])  # another is being moved yet
    assert configs(run, "slow") == set_
    assert len(in_sync(run, "slow")) == 2
    unthrottle(run)
    until(lambda: len(in_sync(run, "slow")) == 3)
    kept = configs(run, "slow")
    assert kept["--topic slow"] == of_topic
    run("reassign", "status", plans["slow"], "--preserve-throttles")
    assert configs(run, "slow") == kept
    until(lambda: "done" in run("reassign", "status", plans["slow"]))
    until(lambda: not any(configs(run, "slow").values()))
    run("topics", "delete", *plans)


def test_a_throttle_is_taken_away_from_what_waits(run: Run, tmp_path: Path) -> None:
    for topic, end in (("raised", ()), ("left", ("--all",))):
        plan = written(run, topic, tmp_path, [0, 1, 2])
        run("reassign", "execute", plan, "--throttle", "1")
        moving = until(lambda: json.loads(run("reassign", "status", "--json")))
        assert moving[0]["state"] == "moving"
        if end:
            run("reassign", "cancel", *end)
        else:
            unthrottle(run)
            until(lambda: len(in_sync(run, "raised")) == 3)
            until(lambda: "done" in run("reassign", "status", plan))  # noqa: B023
        until(lambda: not any(configs(run, topic).values()))  # noqa: B023
        until(lambda: replicas(run, topic) == [[0, 1] if end else [0, 1, 2]])  # noqa: B023
        run("topics", "delete", topic)


@pytest.mark.java
def test_kafka_s_own_tool(
    run: Run, brokers: Broker, tmp_path: Path, runners: Mapping[str, ToolRunner]
) -> None:
    plan = written(run, "moved", tmp_path, [1, 2])

    def tool(*arguments: str) -> str:
        where = ("--bootstrap-server", brokers.bootstrap_servers, "--reassignment-json-file", plan)
        return runners["3.9.2"].run("ReassignPartitionsCommand", *where, *arguments).stdout

    rates = "--throttle", "1000", "--replica-alter-log-dirs-throttle", "5"
    assert "Successfully started partition reassignment for moved-0" in tool("--execute", *rates)
    of_topic = {
        "leader.replication.throttled.replicas": "0:0,0:1",
        "follower.replication.throttled.replicas": "0:2",
    }
    until(lambda: configs(run, "moved")["--topic moved"] == of_topic)
    of_broker = dict.fromkeys(
        ("leader.replication.throttled.rate", "follower.replication.throttled.rate"), "1000"
    )
    until(lambda: configs(run, "moved")["--broker 2"] == of_broker)
    assert "moved-0 is still in progress" in tool("--verify")
    assert any(configs(run, "moved").values())
    unthrottle(run)
    until(lambda: not json.loads(run("reassign", "status", "--json")))
    # The broker that the tool asks may not have been told of the end yet.
    until(lambda: "moved-0 is completed" in tool("--verify"))
    until(lambda: not any(configs(run, "moved").values()))
    until(lambda: replicas(run, "moved") == [[1, 2]])
    run("topics", "delete", "moved")


def test_a_killed_broker_shows(run: Run, brokers: Broker) -> None:
    run("topics", "create", "u", "--assignment", "2:0")
    run("topics", "create", "v", "--assignment", "2")
    run("topics", "delete", "t", "--if-exists")
    brokers.kill(2, expire=True)
    # That the broker is gone may be told before what that means for partitions.
    until(lambda: _down(run) == ([2], [("v", 0)], [("u", [0])]))
    refused = run("elect-leaders", "--topic", "v", code=1)
    assert "could not be given a leader" in refused
    brokers.start(2)
    run("elect-leaders", "--topic", "u:0")
    until(lambda: brokers.leader("u", 0) == 2)


def _down(run: Run) -> tuple[list[int], list[tuple[str, int]], list[tuple[str, list[int]]]]:
    """Brokers that are down, partitions that are offline, in-sync replicas of the others.

    Without those of __consumer_offsets, which is there since librdkafka asked for a coordinator.
    """
    described = json.loads(run("cluster", "describe", "--json"))
    offline, lacking = (
        [p for p in described[kind] if not p["topic"].startswith("__")]
        for kind in ("offline", "under_replicated")
    )
    return (
        described["brokers_down"],
        [(p["topic"], p["partition"]) for p in offline],
        [(p["topic"], p["isr"]) for p in lacking],
    )
