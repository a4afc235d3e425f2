"""`odradek topics` against a broker."""

import json

import pytest

from odradek.protocol.primitives import uuid_bytes

from .conftest import Run

pytestmark = pytest.mark.wire


def test_create_list_describe_alter_delete(run: Run) -> None:
    created = run("topics", "create", "lamp", "-p", "2", "--config", "retention.ms=123456")
    assert (created.returncode, created.stdout, created.stderr) == (0, b"", b"created lamp\n")
    assert b"lamp" in run("topics", "list", "-q").stdout.split()

    (listed,) = [
        t for t in json.loads(run("topics", "list", "--json").stdout) if t["topic"] == "lamp"
    ]
    assert (listed["partition_count"], listed["replication_factor"]) == (2, 1)
    assert len(uuid_bytes(listed["topic_id"])) == 16

    (described,) = json.loads(run("topics", "describe", "lamp", "--offsets", "--json").stdout)
    assert described["configs"] == {"retention.ms": "123456"}
    assert [(p["partition"], p["start"], p["end"]) for p in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    leader = described["partitions"][0]["leader"]
    assert described["partitions"][0]["isr"] == [leader]

    assert run("topics", "alter", "lamp", "-p", "4").stderr == b"altered lamp\n"
    text = run("topics", "describe", "lamp").stdout.decode().splitlines()
    assert text[0].startswith("lamp  id=") and text[0].endswith("retention.ms=123456")
    assert text[1].split() == ["PARTITION", "LEADER", "REPLICAS", "ISR"]
    assert len(text) == 2 + 4

    assert run("topics", "delete", "lamp").stderr == b"deleted lamp\n"
    assert b"lamp" not in run("topics", "list", "-q").stdout.split()


def test_refusals_are_one_sentence_and_exit_code_1(run: Run, topic: str) -> None:
    for arguments, complaint in [
        (("create", topic), "TOPIC_ALREADY_EXISTS"),
        (("create", "bad name"), "INVALID_TOPIC_EXCEPTION"),
        (("create", "lamp", "-r", "7"), "INVALID_REPLICATION_FACTOR"),
        (("create", "lamp", "--config", "no.such=1"), "INVALID_CONFIG"),
        (("delete", "nowhere"), "there is no topic 'nowhere'"),
        (("describe", "nowhere"), "there is no topic 'nowhere'"),
        (("alter", topic, "-p", "1"), "INVALID_PARTITIONS"),
        (("alter", f"{topic}s", "-p", "1"), f"did you mean {topic}?"),
    ]:
        done = run("topics", *arguments)
        assert (done.returncode, done.stdout) == (1, b""), arguments
        (line,) = done.stderr.decode().splitlines()
        assert line.startswith("Error: ") and complaint in line, line


def test_some_done_some_refused(run: Run, topic: str) -> None:
    done = run("topics", "create", topic, "lamp-2")
    assert done.returncode == 1
    assert b"created lamp-2\n" in done.stderr
    done = run("topics", "create", topic, "lamp-2", "--if-not-exists")
    assert (done.returncode, done.stderr) == (0, b"")
    done = run("topics", "delete", "lamp-2", "nowhere", "--if-exists")
    assert (done.returncode, done.stderr) == (0, b"deleted lamp-2\n")


def test_dry_run_creates_nothing(run: Run) -> None:
    assert run("topics", "create", "ghost", "--dry-run").stderr == b"would create ghost\n"
    assert b"ghost" not in run("topics", "list", "-q").stdout.split()


def test_replica_assignment(run: Run, topic: str) -> None:
    (described,) = json.loads(run("topics", "describe", topic, "--json").stdout)
    broker = described["partitions"][0]["leader"]
    done = run("topics", "create", "placed", "--replica-assignment", f"{broker},{broker}")
    assert done.returncode == 0, done.stderr
    (described,) = json.loads(run("topics", "describe", "placed", "--json").stdout)
    assert [p["replicas"] for p in described["partitions"]] == [[broker], [broker]]
    run("topics", "delete", "placed")
    assert run("topics", "create", "placed", "--replica-assignment", "a").returncode == 2
    assert run("topics", "create", "x", "--replica-assignment", "1", "-p", "1").returncode == 2
