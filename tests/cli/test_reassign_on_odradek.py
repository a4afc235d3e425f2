"""Moving replicas between three brokers of ours, and looking at them."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.testing import Broker

pytestmark = pytest.mark.wire

DEADLINE_S = 30.0
Run = Callable[..., str]


@pytest.fixture(scope="module")
def brokers() -> Iterator[Broker]:
    with Broker(brokers=3) as broker:
        yield broker


@pytest.fixture
def run(brokers: Broker) -> Run:
    def run(*arguments: str, stdin: bytes = b"", code: int = 0) -> str:
        command = [*arguments, "-b", brokers.bootstrap_servers]
        done = CliRunner().invoke(main, command, input=stdin, catch_exceptions=False)
        assert done.exit_code == code, (arguments, done.stderr)
        return done.stdout if code == 0 else done.stderr

    return run


def until(found: Callable[[], Any]) -> Any:
    deadline_s = time.monotonic() + DEADLINE_S
    while not (what := found()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return what


def replicas(run: Run, topic: str) -> list[list[int]]:
    (described,) = json.loads(run("topics", "describe", topic, "--json"))
    return [partition["replicas"] for partition in described["partitions"]]


def test_a_broker_is_drained_and_gets_its_share_again(run: Run, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    run("topics", "create", "t", "--assignment", "0:1,1:2,2:0")
    for partition in range(3):
        run("produce", "t", "-p", str(partition), stdin=b"record\n" * 1000)
    assert "2 replicas to copy" in run("reassign", "plan", "--drain", "2", "-o", plan)
    refused = run("reassign", "execute", plan, "--throttle", "1M", code=1)
    assert "nothing was begun" in refused
    back = tmp_path / "back.json"
    back.write_text(run("reassign", "execute", plan))

    def is_done(path: str) -> bool:
        states = json.loads(run("reassign", "status", path, "--json"))
        return all(state["state"] == "done" for state in states)

    until(lambda: is_done(plan))
    assert not any(2 in some for some in replicas(run, "t"))
    described = json.loads(run("cluster", "describe", "--json"))
    assert [b["replicas"] for b in described["brokers"]] == [3, 3, 0]
    assert not described["offline"] + described["under_replicated"]
    assert run("consume", "t", "--until", "now").count("record") == 3000

    run("reassign", "execute", str(back))
    until(lambda: is_done(str(back)))
    assert replicas(run, "t") == [[0, 1], [1, 2], [2, 0]]
    assert run("reassign", "status") == "nothing is being moved\n"
    run("reassign", "cancel", "--all")


def test_a_killed_broker_shows(run: Run, brokers: Broker) -> None:
    run("topics", "create", "u", "--assignment", "2:0")
    run("topics", "create", "v", "--assignment", "2")
    run("topics", "delete", "t", "--if-exists")
    brokers.kill(2, expire=True)
    described = until(lambda: _with_broker_2_down(run))
    assert [(p["topic"], p["partition"]) for p in described["offline"]] == [("v", 0)]
    assert [(p["topic"], p["isr"]) for p in described["under_replicated"]] == [("u", [0])]
    refused = run("elect-leaders", "--topic", "v", code=1)
    assert "could not be given a leader" in refused
    brokers.start(2)
    run("elect-leaders", "--topic", "u:0")
    assert brokers.leader("u", 0) == 2


def _with_broker_2_down(run: Run) -> Any:
    described = json.loads(run("cluster", "describe", "--json"))
    return described if described["brokers_down"] == [2] else None
