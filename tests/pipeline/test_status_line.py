"""The line at the foot of a terminal."""

import io
import logging
import os
import pty
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest

from odradek.cli.logs import set_up_logging
from odradek.pipeline.status_line import StatusLine

CLEAR = "\r\x1b[K"
log = logging.getLogger("odradek.pipeline.tests")


class Screen(io.StringIO):
    """A terminal's stderr."""

    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[Screen]:
    """As `odradek pipeline … --log-level info` finds it; no fixture, pytest sets stderr later."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    root.handlers.clear()
    with redirect_stderr(Screen()) as screen:
        set_up_logging("plain", "info")
        yield screen
    root.handlers[:] = before
    root.setLevel(level)


def shown(screen: Screen) -> list[str]:
    """All lines that stood at the foot, one after another, without what was logged above."""
    return screen.getvalue().rstrip("\n").split(CLEAR)[1:]


def test_nothing_is_drawn_where_nobody_looks() -> None:
    out = io.StringIO()
    with StatusLine(out) as line:
        line.show("x")
    assert out.getvalue() == ""


def test_the_line_is_written_over() -> None:
    out = Screen()
    with StatusLine(out) as line:
        line.show("one")
        line.show("two")
    assert out.getvalue() == f"{CLEAR}one{CLEAR}two\n"


def test_a_job_that_showed_nothing_leaves_nothing() -> None:
    out = Screen()
    with StatusLine(out):
        pass
    assert out.getvalue() == ""


def test_the_log_goes_above_the_line() -> None:
    with terminal() as screen:
        with StatusLine() as line:
            log.info("before it")
            line.show("one")
            log.warning("beside it")
            line.show("two")
        log.info("behind it")
    above, first, beside, second = shown(screen)
    assert above.endswith("before it\n")
    assert first == "one"
    logged, _, again = beside.partition("\n")
    assert (logged.endswith("beside it"), again) == (True, "one")
    foot, _, behind = second.partition("\n")
    assert (foot, behind.endswith("behind it")) == ("two", True)


def test_a_log_that_goes_elsewhere_is_left_alone() -> None:
    elsewhere = io.StringIO()
    with terminal():
        logging.getLogger().addHandler(logging.StreamHandler(elsewhere))
        with StatusLine() as line:
            line.show("x")
            log.info("said")
    assert elsewhere.getvalue() == "said\n"


@pytest.mark.parametrize(("columns", "seen"), [(0, "a" * 78 + "…"), (20, "a" * 18 + "…")])
def test_a_line_is_as_long_as_the_terminal_is_wide(columns: int, seen: str) -> None:
    here, there = pty.openpty()
    with open(there, "w", encoding="utf-8") as out:
        termios.tcsetwinsize(there, (24, columns))
        with StatusLine(out) as line:
            line.show("a" * 100)
        read = os.read(here, 1000).decode()
    os.close(here)
    assert read.rstrip() == CLEAR + seen
