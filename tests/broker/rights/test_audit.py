"""The audit log: bounded lines, and no text of a client that could look like another line."""

import logging

import pytest

from odradek.broker import runtime
from odradek.broker.core.acls.terms import Operation, ResourceType
from odradek.broker.rights.audit import LINES_MAX, LINES_OF_ONE_MAX, MINUTE_MS, Audit

TOPIC, READ = ResourceType.TOPIC, Operation.READ


class Clock(runtime.Clock):
    def __init__(self) -> None:
        self.ms = 0

    def now_ms(self) -> int:
        return self.ms

    def wall_ms(self) -> int:
        return 0


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def audit(clock: Clock, caplog: pytest.LogCaptureFixture) -> Audit:
    caplog.set_level(logging.INFO)
    return Audit(clock)


def test_a_line_says_who_was_refused_what(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    audit.denied("User:alice", "10.0.0.1", "Fetch", READ, TOPIC, "orders")
    assert caplog.messages == [
        "access denied principal='User:alice' host=10.0.0.1 api=Fetch operation=Read "
        "resource=Topic:'orders'"
    ]


def test_text_of_clients_is_escaped(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    audit.denied("User:é\n", "h", "Fetch", READ, TOPIC, "'\n access denied\x1b[0m" + "x" * 9999)
    assert "\n" not in caplog.text.rstrip("\n")
    assert caplog.text.isascii()
    assert "\x1b" not in caplog.text
    assert len(caplog.messages[0]) < 1000


def test_the_same_is_said_once_a_minute(
    audit: Audit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("a", "b"):
        audit.denied("User:alice", "h", "Fetch", READ, TOPIC, name)
    audit.denied("User:alice", "h", "Fetch", READ, ResourceType.CLUSTER, "a")
    assert len(caplog.messages) == 2
    clock.ms += MINUTE_MS
    audit.denied("User:alice", "h", "Fetch", READ, TOPIC, "c")
    assert caplog.messages[2] == "access denied more often, 1 times without a line"
    assert caplog.messages[3].endswith("Topic:'c'")


def test_lines_are_bounded(audit: Audit, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2 * LINES_MAX):
        audit.denied(f"User:{number}", "h", "Fetch", READ, TOPIC, "t")
    assert len(caplog.messages) == LINES_MAX


def test_nobody_uses_up_the_lines_about_others(
    audit: Audit, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        for number in range(2 * LINES_MAX):
            audit.denied("User:eve", f"2001:db8::{number}", "Fetch", READ, TOPIC, "t")
        audit.denied("User:mallory", "h", "Fetch", READ, TOPIC, "secret")
        assert "mallory" in caplog.messages[-1]
        clock.ms += MINUTE_MS
    assert sum("eve" in message for message in caplog.messages) == 2 * LINES_OF_ONE_MAX
