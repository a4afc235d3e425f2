"""`odradek configs` against a broker."""

import json
from typing import Any

import pytest
from click.testing import CliRunner

from odradek.cli import main

from .conftest import Run


def described(run: Run, *arguments: str) -> dict[str, dict[str, Any]]:
    done = run("configs", "describe", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return {config["name"]: config for config in json.loads(done.stdout)}


@pytest.mark.wire
def test_set_append_subtract_delete(run: Run, topic: str) -> None:
    change = ("configs", "alter", "--topic", topic)
    done = run(*change, "--set", "max.message.bytes=2000000", "--append", "cleanup.policy=delete")
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert done.stderr.decode() == f"configured topic {topic}\n"
    found = described(run, "--topic", topic)
    assert {name: config["value"] for name, config in found.items()} == {
        "cleanup.policy": "delete",
        "max.message.bytes": "2000000",
    }
    size = found["max.message.bytes"]
    assert (size["type"], size["read_only"], size["sensitive"]) == ("INT", False, False)
    assert [(s["name"], s["source"]) for s in size["synonyms"]] == [
        ("max.message.bytes", "DYNAMIC_TOPIC_CONFIG"),
        ("message.max.bytes", "DEFAULT_CONFIG"),
    ]

    size_back = (*change, "--delete", "max.message.bytes")
    assert run(*size_back, "--dry-run").stderr == f"would configure topic {topic}\n".encode()
    assert described(run, "--topic", topic).keys() == {"cleanup.policy", "max.message.bytes"}
    run(*size_back, "--subtract", "cleanup.policy=compact")
    (config,) = described(run, "--topic", topic).values()
    assert (config["name"], config["value"]) == ("cleanup.policy", "delete")


@pytest.mark.wire
def test_all_settings_of_a_topic(run: Run, topic: str) -> None:
    every = described(run, "--topic", topic, "--all")
    assert every["retention.ms"]["source"] == "DEFAULT_CONFIG"
    done = run("configs", "describe", "--topic", topic, "--all")
    columns, *rows = done.stdout.decode().splitlines()
    assert columns.split() == ["NAME", "VALUE", "SOURCE", "TYPE", "READ-ONLY"]
    assert [row.split()[0] for row in rows] == sorted(every)
    assert run("configs", "describe", "--topic", topic).stdout == b""


@pytest.mark.wire
def test_a_broker_and_what_holds_for_all(run: Run, topic: str) -> None:
    (described_topic,) = json.loads(run("topics", "describe", topic, "--json").stdout)
    broker = str(described_topic["partitions"][0]["leader"])
    every = described(run, "--broker", broker, "--all")
    assert every["log.retention.hours"]["value"] == "168"
    change = ("configs", "alter", "--broker-default")
    done = run(*change, "--set", "message.max.bytes=2000000")
    assert (done.returncode, done.stderr) == (0, b"configured the default of brokers\n")
    try:
        found = described(run, "--broker-default")["message.max.bytes"]
        assert found["value"] == "2000000"
        assert found["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
        assert "message.max.bytes" not in described(run, "--broker", broker)
    finally:
        assert run(*change, "--delete", "message.max.bytes").returncode == 0
    assert "message.max.bytes" not in described(run, "--broker-default")


@pytest.mark.wire
def test_refusals_are_one_sentence_and_exit_code_1(run: Run, topic: str) -> None:
    for arguments, complaint in [
        (("describe", "--topic", "nowhere"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("describe", "--broker", "77"), "there is no broker 77"),
        (("alter", "--topic", "nowhere", "--set", "retention.ms=1"), "UNKNOWN_TOPIC_OR_PARTITION"),
        (("alter", "--topic", topic, "--set", "retention.ms=soon"), "INVALID_CONFIG"),
        (("alter", "--topic", topic, "--append", "retention.ms=1"), "INVALID_CONFIG"),
    ]:
        done = run("configs", *arguments)
        assert (done.returncode, done.stdout) == (1, b""), arguments
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("Error: ") and complaint in line, line


@pytest.mark.parametrize(
    "arguments",
    [
        ["describe"],
        ["describe", "--topic", "t", "--broker", "0"],
        ["describe", "--broker", "x"],
        ["alter", "--topic", "t"],
        ["alter", "--set", "retention.ms=1"],
        ["alter", "--topic", "t", "--set", "a=1", "--delete", "a"],
        ["alter", "--topic", "t", "--delete", "a", "--delete", "a"],
        ["alter", "--topic", "t", "--set", "a"],
    ],
)
def test_wrong_usage(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["configs", *arguments, "-b", "127.0.0.1:1"])
    assert result.exit_code == 2, result.output
