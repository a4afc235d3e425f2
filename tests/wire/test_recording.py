"""Recordings: what they keep, that none is left over, and what a whole run does without one."""

from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.wire import (
    comparing,
    test_against_kafka,
    test_groups_against_kafka,
    test_oauthbearer_against_kafka,
    test_sasl_against_kafka,
)
from tests.wire import test_transactions_against_kafka as transactions
from tests.wire import test_transactions_version_2_against_kafka as version_2
from tests.wire.compactions import RECORDINGS as COMPACTIONS
from tests.wire.compactions import SCENARIOS
from tests.wire.recording import RECORDINGS, Answers, Recording, as_recorded
from tests.wire.talk import Talk

LONG = {"text": "x" * 100, "bytes": b"\0\xff", "list": [1, None, True, "ä"]}


def conversation(_: Talk) -> None:
    """Says nothing."""


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    answers: Answers = {"a": LONG, "b": "short", "again": dict(LONG), "short again": "short"}
    recording = Recording("hash", answers, ["a: ours 1, Kafka's 2"])
    recording.write(tmp_path / "folder" / "it.json")
    assert Recording.read(tmp_path / "folder" / "it.json", "hash") == recording
    assert Recording.read(tmp_path / "folder" / "it.json", "another") is None
    assert Recording.read(tmp_path / "folder" / "none.json", "hash") is None
    assert list(recording.answers) == list(answers)
    assert (tmp_path / "folder" / "it.json").read_text().count("x" * 100) == 1


def test_what_is_no_number_equals_itself() -> None:
    kept = as_recorded({"a": [float("nan"), float("inf"), 1.5]})
    assert kept == {"a": ["(nan)", "(inf)", 1.5]}


def test_nothing_is_held_for_a_stale_recording_of_a_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparing, "RECORDINGS", tmp_path)  # none is there
    monkeypatch.setenv("ODRADEK_REQUIRE", "all")
    suite = test_against_kafka.ANSWERS
    pair = comparing.Pair(suite, comparing.Kafka.RECORDED, "odradek", tmp_path)
    request: Any = SimpleNamespace(node=SimpleNamespace(nodeid="test_x.py::a", user_properties=[]))
    with (
        closing(pair),
        pytest.raises(pytest.fail.Exception, match=r"--record .* test_x\.py::a"),
    ):
        comparing.compare(conversation, pair, request)


def test_no_recording_is_left_over() -> None:
    pairs = (
        *test_against_kafka.HELD,
        *test_groups_against_kafka.HELD,
        *transactions.HELD,
        *version_2.HELD,
        *test_sasl_against_kafka.HELD,
        *test_oauthbearer_against_kafka.HELD,
    )
    held = {suite.path(each) for suite, conversations in pairs for each in conversations}
    assert set(RECORDINGS.rglob("*.json")) == held
    assert set(COMPACTIONS.iterdir()) == {scenario.path for scenario in SCENARIOS}
