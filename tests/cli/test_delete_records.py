"""`odradek topics delete-records` against a broker."""

import json

import pytest

from .conftest import Run

pytestmark = pytest.mark.wire


@pytest.fixture
def numbers(run: Run, topic: str) -> str:
    """A topic with 10 records in each of two partitions."""
    for partition in ("0", "1"):
        lines = b"".join(b"%d\n" % n for n in range(10))
        assert run("produce", topic, "-p", partition, stdin=lines).returncode == 0
    return topic


def starts(run: Run, topic: str) -> list[int]:
    described = json.loads(run("topics", "describe", topic, "--offsets", "--json").stdout)
    return [partition["start"] for partition in described[0]["partitions"]]


def test_places(run: Run, numbers: str) -> None:
    for arguments, expected in [
        (["--before", "5", "-p", "0", "--dry-run"], [0, 0, 0]),
        (["--before", "5", "-p", "0"], [5, 0, 0]),
        (["--before", "-3", "-p", "0,1"], [7, 7, 0]),
        (["--before", "2", "-p", "0"], [7, 7, 0]),  # the start never goes back
        (["--before", "@-1h"], [7, 7, 0]),
        (["--before", "end"], [10, 10, 0]),
    ]:
        done = run("topics", "delete-records", numbers, *arguments, "--json")
        assert done.returncode == 0, done.stderr
        assert starts(run, numbers) == expected, arguments
        rows = json.loads(done.stdout)
        if "--dry-run" in arguments:
            assert rows[0]["new_start"] == 5
        else:
            assert all(row["new_start"] == expected[row["partition"]] for row in rows)


def test_refusals(run: Run, numbers: str) -> None:
    for arguments, code, complaint in [
        ([numbers, "--before", "1", "-p", "7"], 1, "has partitions 0 to 2, not 7"),
        (["nowhere", "--before", "1"], 1, "there is no topic 'nowhere'"),
        ([numbers, "--before", "1:2"], 2, "one place, not a range"),
        ([numbers, "--before", "5:"], 2, "one place, not a range"),
        ([numbers, "--before", "@2099-01-01"], 2, "@2099-01-01 is in the future"),
        ([numbers, "--before", "11", "-p", "0"], 1, "-0 ends at offset 10, before 11"),
        ([numbers, "--before", "x"], 2, "is not earliest"),
        ([numbers], 2, "--before"),
    ]:
        done = run("topics", "delete-records", *arguments)
        assert done.returncode == code and complaint in done.stderr.decode(), done
    assert starts(run, numbers) == [0, 0, 0]
