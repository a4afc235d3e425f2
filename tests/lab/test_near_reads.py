"""Reading from the nearest replica: each answer of Odradek's brokers is Apache Kafka's.

What Kafka answered is kept; with `make soak` it is asked again.
"""

from pathlib import Path

import pytest

from tests.lab import near_reads

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(300)]
QUESTIONS = 313


def compare(answers: near_reads.Answers) -> None:
    """Fail with every answer that is another one."""
    kept = near_reads.load()
    assert len(kept) == QUESTIONS, "those that were asked are kept"
    assert list(answers) == list(kept), "the same was asked"
    differences = [
        f"{what}\n    Kafka   {kept[what]}\n    Odradek {answers[what]}"
        for what in kept
        if answers[what] != kept[what]
    ]
    assert not differences, "\n".join(differences)


def test_answers_as_kafka(tmp_path: Path) -> None:
    compare(near_reads.run("odradek", tmp_path))


@pytest.mark.soak
def test_kafka_is_as_recorded(tmp_path: Path) -> None:
    compare(near_reads.run("kafka", tmp_path))
