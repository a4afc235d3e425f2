"""Rules and the journal in a pytest run of its own: what ends with a test, and what it reports."""

from pathlib import Path

import pytest

from .test_fixtures import pytest_run

pytestmark = pytest.mark.wire

USER_TESTS = """
import pytest
from confluent_kafka import Producer


def write(broker):
    broker.topics.create("orders")
    config = {"client.id": "app-1", "linger.ms": 0, "retry.backoff.ms": 10}
    producer = Producer({**broker.client_config("confluent"), **config})
    producer.produce("orders", b"x")
    assert producer.flush(30) == 0


def test_a_rule_that_acts(odradek):
    odradek.faults.add(api="Produce", topic="orders", times=1, error="NOT_LEADER_OR_FOLLOWER")
    write(odradek)


def test_a_rule_that_never_acts(odradek):
    odradek.faults.add(api="Produce", topic="order", times=1, close=True)
    write(odradek)


def test_rules_and_journal_have_ended(odradek):
    assert odradek.faults.all() == []
    assert odradek.journal.requests() == []


def test_an_optional_rule(odradek):
    odradek.faults.add(api="Fetch", close=True, optional=True)


def test_a_rule_that_is_removed(odradek):
    odradek.faults.add(api="Fetch", close=True).remove()


def test_that_fails_on_its_own(odradek):
    odradek.faults.add(api="Fetch", close=True)
    write(odradek)
    assert False, "its own reason"


def test_a_function(odradek):
    with pytest.raises(ValueError, match="a function can only be given to a broker with"):
        odradek.faults.add(api="Fetch", answer=lambda request, response: {})
"""


def test_rules_end_with_a_test_and_must_act(tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    done = pytest_run(tmp_path, "-W", "ignore")
    said = done.stdout
    assert "1 failed, 6 passed, 1 error" in said, said + done.stderr
    assert "ERROR test_user.py::test_a_rule_that_never_acts" in said, said
    sentence = "api='Produce', topic='order', times=1, close=True): Produce of topic `order`, did "
    assert sentence + "you mean `orders`?" in said, said
    reported = said[said.index("last requests") :]
    assert "Produce v" in reported and "client_id=app-1 topics=orders" in reported
