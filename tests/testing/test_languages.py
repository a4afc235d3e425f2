"""The admin API, driven from other languages: each program does the same with three brokers."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from odradek.testing import Broker

pytestmark = [pytest.mark.wire, pytest.mark.slow]

PROGRAMS = Path(__file__).parent / "languages"
TIMEOUT_S = 100
BUILD_TIMEOUT_S = 900


@pytest.fixture
def three() -> Iterator[Broker]:
    with Broker(brokers=3, in_process=True) as started:
        yield started


def run(*command: str, needs: str = "", timeout_s: int = TIMEOUT_S) -> list[str]:
    """The lines that a program prints; `needs` is the program, if it is not the first word."""
    program = needs or command[0]
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    ended = subprocess.run(command, capture_output=True, timeout=timeout_s, cwd=PROGRAMS)
    assert ended.returncode == 0, ended.stderr.decode()
    return ended.stdout.decode().splitlines()


def check(answers: list[tuple[int, Any]], broker: Broker) -> None:
    """Each program has asked the same, and been told the same."""
    statuses = [status for status, _ in answers]
    assert statuses == [201, 201, 200, 200, 200, 400, 404]
    topic, written, read, killed, started, refused, absent = (content for _, content in answers)
    assert len(topic["partitions"][0]["replicas"]) == 2
    assert written == {"records": [{"partition": 0, "offset": 0}]}
    assert [(each["key"], each["value"]) for each in read["records"]] == [("k", "é")]
    assert (killed["state"], started["state"]) == ("down", "running")
    assert refused == {"error": "'now' is not a field: this request has none"}
    assert absent == {"error": "there is no group 'nosuch'"}
    assert [record.value for record in broker.records("t")] == ["é".encode()]


def in_lines(lines: list[str]) -> list[tuple[int, Any]]:
    """The answers, each a line with status and JSON."""
    parted = [line.partition(" ") for line in lines]
    return [(int(status), json.loads(content)) for status, _, content in parted]


@pytest.mark.java
def test_java(three: Broker) -> None:
    quick = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Dfile.encoding=UTF-8")
    check(in_lines(run("java", *quick, "AdminApi.java", three.admin_url)), three)


def test_node(three: Broker) -> None:
    check(in_lines(run("node", "admin_api.mjs", three.admin_url)), three)


@pytest.mark.soak  # the first build of Go's net/http takes half a minute
def test_go(three: Broker) -> None:
    check(
        in_lines(run("go", "run", "admin_api.go", three.admin_url, timeout_s=BUILD_TIMEOUT_S)),
        three,
    )


def test_curl(three: Broker) -> None:
    lines = run("sh", "admin_api.sh", three.admin_url, needs="curl")
    contents, statuses = lines[::2], lines[1::2]
    answers = zip(map(int, statuses), map(json.loads, contents), strict=True)
    check(list(answers), three)
