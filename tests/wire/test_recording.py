"""Recordings: what they keep, and that none is left over."""

from pathlib import Path

import pytest

from tests.wire import test_against_kafka, test_groups_against_kafka
from tests.wire.compactions import RECORDINGS as COMPACTIONS
from tests.wire.compactions import SCENARIOS
from tests.wire.recording import RECORDINGS, Answers, Recording, as_recorded

LONG = {"text": "x" * 100, "bytes": b"\0\xff", "list": [1, None, True, "ä"]}


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    answers: Answers = {"a": LONG, "b": "short", "again": dict(LONG), "short again": "short"}
    recording = Recording("hash", answers, ["a: ours 1, Kafka's 2"])
    recording.write(tmp_path / "folder" / "it.json")
    assert Recording.read(tmp_path / "folder" / "it.json") == recording
    assert list(recording.answers) == list(answers)
    assert (tmp_path / "folder" / "it.json").read_text().count("x" * 100) == 1


def test_what_is_no_number_equals_itself() -> None:
    kept = as_recorded({"a": [float("nan"), float("inf"), 1.5]})
    assert kept == {"a": ["(nan)", "(inf)", 1.5]}


def test_no_recording_is_left_over() -> None:
    groups, answers = test_groups_against_kafka, test_against_kafka
    held = {suite.path(each) for suite, held in answers.HELD + groups.HELD for each in held}
    assert set(RECORDINGS.rglob("*.json")) == held
    assert set(COMPACTIONS.iterdir()) == {scenario.path for scenario in SCENARIOS}
