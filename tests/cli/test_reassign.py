"""`odradek reassign`, `topics plan`: what needs no cluster."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from odradek.cli import main
from odradek.cli.cluster_view import size_text
from odradek.cli.errors import CommandError
from odradek.cli.reassign import parse_rate
from odradek.cli.reassign_files import plan_document, read_plan
from odradek.cli.reassign_requests import Moving
from odradek.cli.reassign_throttles import throttled


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(arguments))
    return done.exit_code, done.output


def test_an_assignment_without_a_cluster() -> None:
    code, text = run(
        *("topics", "plan", "-p", "7", "-r", "3", "--start", "0"),
        *("--racks", "0=rack1,1=rack3,2=rack3,3=rack2,4=rack2,5=rack1"),
    )
    assert code == 0
    assert text.splitlines()[1].split() == ["0", "0", "0,3,1", "rack1,rack2,rack3"]
    assert text.splitlines()[-1] == "--assignment 0:3:1,3:1:5,1:5:4,5:4:2,4:2:0,2:0:3,0:4:2"
    code, text = run("topics", "plan", "-p", "2", "-r", "1", "--brokers", "4,2", "--json")
    document = json.loads(text)
    assert code == 0
    assert sorted(document["partitions"]) == [[2], [4]]
    assert document["assignment"] == ",".join(str(b) for (b,) in document["partitions"])


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-p", "1", "-r", "3", "--brokers", "0,1"), 1, "INVALID_REPLICATION_FACTOR"),
        (("-p", "1", "-r", "1", "--brokers", "0,0"), 2, "not like 1,2,3"),
        (("-p", "1", "-r", "1", "--racks", "0=a,1"), 2, "not like 0=a,1=b"),
        (("-p", "1", "-r", "1", "--racks", "0=a,0=b"), 2, "twice"),
        (("-p", "1", "-r", "1", "--racks", "0=a", "--brokers", "0"), 2, "already says"),
    ],
)
def test_assignments_that_cannot_be(arguments: tuple[str, ...], code: int, words: str) -> None:
    found, text = run("topics", "plan", *arguments)
    assert found == code
    assert words in text


@pytest.mark.parametrize(
    "arguments",
    [
        ("plan",),
        ("plan", "--drain", "1", "--topics", "t"),
        ("plan", "--drain", "1", "--brokers", "2"),
        ("plan", "--drain", "x"),
        ("plan", "--replace", "1"),
        ("plan", "--replace", "1=2", "--replace", "1=3"),
        ("cancel",),
        ("cancel", "--all", "--topic", "t"),
        ("cancel", "--topic", "t:x"),
        ("execute", "p.json", "--throttle", "0"),
        ("execute", "p.json", "--throttle", "5X"),
        ("execute", "p.json", "--replica-alter-log-dirs-throttle", "-1"),
        ("status", "--remove-throttles", "--preserve-throttles"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...]) -> None:
    assert run("reassign", *arguments)[0] == 2
    assert run("elect-leaders", "--unclean")[0] == 2


def test_rates_and_sizes() -> None:
    context, option = click.Context(click.Command("c")), click.Option(["--throttle"])
    rates = {"1": 1, "50M": 50 << 20, "3k": 3 << 10, "2G": 2 << 30}
    assert {text: parse_rate(context, option, text) for text in rates} == rates
    sizes = (5, 1 << 10, 1 << 20, 3 << 29, 1 << 41)
    assert [size_text(n) for n in sizes] == ["5 B", "1.0 KiB", "1.0 MiB", "1.5 GiB", "2.0 TiB"]


def test_plans_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = {("t", 0): (1, 2), ("u", 3): (5,)}
    path.write_text(json.dumps(plan_document(plan)))
    assert read_plan(path) == plan
    kafkas = {"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["any"]}
    path.write_text(json.dumps({"version": 1, "partitions": [kafkas]}))
    assert read_plan(path) == {("t", 0): (1,)}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ("[]", "not a reassignment"),
        ("{}", "not a reassignment: there is no 'partitions'$"),
        ('{"version": 2, "partitions": []}', "version 1"),
        ('{"version": 1, "partitions": {}}', "version 1"),
        ('{"version": 1, "partitions": []}', "moves nothing"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0}]}', "replicas"),
        ('{"version": 1, "partitions": [[1]]}', "not a reassignment"),
    ],
)
def test_files_that_are_no_plans(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(CommandError, match=words):
        read_plan(path)


@pytest.mark.parametrize(
    "changed",
    [
        {"topic": 1},
        {"partition": "0"},
        {"partition": True},
        {"partition": -1},
        {"replicas": []},
        {"replicas": [1, 1]},
        {"replicas": [-1]},
        {"replicas": "12"},
        {"log_dirs": ["/data"]},
    ],
)
def test_partitions_that_are_none(tmp_path: Path, changed: dict[str, object]) -> None:
    path = tmp_path / "plan.json"
    entry = {"topic": "t", "partition": 0, "replicas": [1], **changed}
    path.write_text(json.dumps({"version": 1, "partitions": [entry]}))
    with pytest.raises(CommandError, match="not a reassignment"):
        read_plan(path)
    with pytest.raises(CommandError, match="No such file"):
        read_plan(tmp_path / "absent")
    good = {"topic": "t", "partition": 0, "replicas": [1]}
    path.write_text(json.dumps({"version": 1, "partitions": [good, good]}))
    with pytest.raises(CommandError, match="twice"):
        read_plan(path)


def test_what_is_throttled() -> None:
    moves = {("t", 0): ((1, 2), (2, 3)), ("t", 10): ((1,), (1,)), ("u", 1): ((4,), (5, 4))}
    asked = throttled(moves)
    assert asked.leaders == {"t": "0:1,0:2,10:1", "u": "1:4"}
    assert asked.followers == {"t": "0:3", "u": "1:5"}
    assert asked.brokers == [1, 2, 3, 4, 5]


def test_the_target_of_a_move() -> None:
    assert Moving((3, 2, 1), (3,), (1,)).target == (3, 2)
