"""The line at the foot of a terminal, and what the jobs without a query put there."""

import io
import logging
import os
import pty
import re
import termios
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from types import SimpleNamespace
from typing import Any

import pytest

from odradek.cli.logs import set_up_logging
from odradek.cli.pipeline_generate import Meter
from odradek.pipeline import archive_files
from odradek.pipeline.audit import AuditJob, CopiedTopic, Steps
from odradek.pipeline.events import Shape
from odradek.pipeline.generate import Load
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.manifest import About, ArchivedFile, Commit
from odradek.pipeline.replay import Done, Replay, replay_status
from odradek.pipeline.status_line import StatusLine, time_left

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


def test_a_job_outlives_its_terminal() -> None:
    here, there = pty.openpty()
    with open(there, "w", encoding="utf-8") as out:
        with redirect_stderr(out):
            log.addHandler(logging.StreamHandler())
            with StatusLine() as line:
                line.show("one")
                os.close(here)
                line.show("two")
                log.warning("said")
                line.show("three")
            log.handlers.clear()
        line.show("after it")


def test_what_a_job_says_last_goes_nowhere_with_its_terminal() -> None:
    here, there = pty.openpty()
    with open(there, "w", encoding="utf-8") as out, open(os.dup(there), "w") as result:
        with redirect_stdout(result), StatusLine(out) as line:
            os.close(here)
            line.show("one")
        print("done", file=result, flush=True)


def test_a_terminal_that_is_slow_is_not_taken_for_gone() -> None:
    class Slow(Screen):
        def flush(self) -> None:
            raise BlockingIOError

    out = Slow()
    with StatusLine(out) as line:
        line.show("one")
        line.show("two")
    assert out.getvalue().endswith("two\n")


def test_what_is_left_takes_as_long() -> None:
    assert time_left(0, 5) == time_left(1e-300, 5) == ""
    assert time_left(0.25, 60) == ", 0:03:00 left"
    assert time_left(1, 60) == ", 0:00:00 left"


def test_a_replay_shows_chunks_records_and_time() -> None:
    job = Replay("t", "u")
    begun = Done(chunks_planned=4)
    assert replay_status(job, begun, 0) == "t to u: 0 of 4 chunks, 0 records written"
    done = Done(written=50_000, chunks=1, chunks_planned=4)
    assert replay_status(job, done, 10) == (
        "t to u: 1 of 4 chunks, 50,000 records written, 5,000/s, 0:00:30 left"
    )


def test_a_load_shows_records_and_time() -> None:
    seconds = iter([0, 0.05, 10, 10, 20])
    load = Load("t", "orders", 1, 1000, None, Shape())
    with terminal() as screen, StatusLine() as line:
        meter = Meter(load, line, lambda: next(seconds))
        meter(50)  # too soon to be drawn
        meter(450)
        meter.show()
    assert shown(screen) == [
        "orders to t: 500 of 1,000 records, 50/s, 0:00:10 left",
        "orders to t: 500 of 1,000 records, 25/s, 0:00:20 left",
    ]


def test_a_load_without_an_end_has_no_time_left() -> None:
    seconds = iter([0, 10])
    with terminal() as screen, StatusLine() as line:
        Meter(Load("t", "clicks", 1, None, None, Shape()), line, lambda: next(seconds)).show()
    assert shown(screen) == ["clicks to t: 0 records, 0/s"]


@pytest.mark.slow
def test_an_audit_tells_each_of_its_steps() -> None:
    kafka = Kafka("h:1")
    job = AuditJob(kafka, ["t"], archive="/a", copy=CopiedTopic(kafka, "u"))
    with terminal() as screen, StatusLine() as line:
        steps = Steps(job, line)
        steps.begin("asking where each side ends")
        steps.begin_to_read("archive")
    assert [one for one in shown(screen) if one.startswith("audit:")] == [
        "audit: step 1 of 6, asking where each side ends",
        "audit: step 2 of 6, reading archive: /a",
    ]
    assert "audit step=2 steps=6: reading archive: /a\n" in screen.getvalue()


@pytest.mark.slow
def test_a_compaction_tells_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    files = [ArchivedFile(f"{folder}/{name}", "t", 1, 10) for folder in "ab" for name in "xyz"]
    writer: Any = SimpleNamespace(
        commits=[Commit(0, (), tuple(files))], write_snapshot=lambda: None
    )
    monkeypatch.setattr(archive_files, "_rewrite", lambda *_: 1)
    none: Any = None
    with terminal() as screen:
        done = archive_files.compact(none, writer, About(), 100)
    assert (done.files_before, done.files_after) == (6, 2)
    first, _, second, *_ = shown(screen)
    assert first == "compaction: folder 1 of 2, a"
    assert re.fullmatch(r"compaction: folder 2 of 2, [\d:]+ left, b", second)
