"""The process that a Spark runs in: an answer belongs to its request, whatever has happened."""

import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.spark.child import JobFailed, SparkChild
from tests.spark.environment import Spark

CHILD = """
import json, os, signal, sys
answers = os.fdopen(int(sys.argv[1]), "w")
for line in sys.stdin:
    request = json.loads(line)
    if request["what"] == "interrupt":
        os.kill(os.getppid(), signal.SIGUSR1)
    if request["what"] == "end":
        break
    answer = {"error": "no"} if request["what"] == "fail" else [os.getpid(), request["number"]]
    print(json.dumps(answer if "error" in answer else {"value": answer}), file=answers, flush=True)
"""


@dataclass(frozen=True, slots=True)
class NoSpark(Spark):
    """This interpreter."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


class Interrupted(BaseException):
    """As pytest's alarm is."""


def interrupt(*_: object) -> None:
    raise Interrupted


@pytest.fixture
def child(tmp_path: Path) -> Iterator[SparkChild]:
    (tmp_path / "answering.py").write_text(CHILD)
    before = signal.signal(signal.SIGUSR1, interrupt)
    started = SparkChild(NoSpark("none", "0", "0"), tmp_path, "answering", "", os.environ)
    try:
        yield started
    finally:
        started.close()
        signal.signal(signal.SIGUSR1, before)


def test_an_error_ends_nothing(child: SparkChild) -> None:
    first, _ = child.ask({"what": "answer", "number": 1})
    with pytest.raises(JobFailed, match="no"):
        child.ask({"what": "fail"})
    assert child.ask({"what": "answer", "number": 2}) == [first, 2]


def test_an_answer_that_nobody_waits_for_is_nobody_elses(child: SparkChild) -> None:
    first, _ = child.ask({"what": "answer", "number": 1})
    with pytest.raises(Interrupted):
        child.ask({"what": "interrupt", "number": 2})
    other, number = child.ask({"what": "answer", "number": 3})
    assert (number, other == first) == (3, False)


def test_one_that_has_ended_fails_one_test(child: SparkChild) -> None:
    with pytest.raises(JobFailed, match="Spark ended"):
        child.ask({"what": "end"})
    assert child.ask({"what": "answer", "number": 1})[1] == 1
    os.kill(child.ask({"what": "answer", "number": 2})[0], signal.SIGKILL)
    with pytest.raises((JobFailed, BrokenPipeError)):
        child.ask({"what": "answer", "number": 3})
    assert child.ask({"what": "answer", "number": 4})[1] == 4
