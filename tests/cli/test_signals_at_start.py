"""SIGINT and SIGTERM at exact places of the start of `odradek run` and `odradek serve`."""

import fcntl
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

DEADLINE_S: Final = 30
FREES_IMPORT_LOCK: Final = "_get_module_lock.<locals>.cb"
"""What is raised in this callback of each import is dropped."""
RUN: Final = ("run", "--sasl", "PLAIN", "--", "echo", "ran")
SERVE: Final = ("serve", "--listen", "127.0.0.1:0", "--log-level", "warning")
FIRST: Final = "end_at_signals"
PLACES: Final = 40

pytestmark = [pytest.mark.wire, pytest.mark.slow]


def signalled(
    name: str, place: str, arguments: Sequence[str], cwd: Path
) -> subprocess.CompletedProcess[str]:
    """Run `odradek`, with a signal at a place (`signal_at.py`)."""
    command = [sys.executable, "-m", "tests.cli.signal_at", name, place, *arguments]
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": root},
        input="",
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize(
    ("place", "code"),
    [
        (f"{FIRST}/{FREES_IMPORT_LOCK}", -signal.SIGINT),
        (f"run/{FREES_IMPORT_LOCK}", 128 + signal.SIGINT),
        ("run/first_line", 128 + signal.SIGINT),
    ],
)
def test_an_interrupt_ends_run_before_its_command(place: str, code: int, tmp_path: Path) -> None:
    done = signalled("SIGINT", place, RUN, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"signal at {place.split('/')[-1]}\n"


@pytest.mark.parametrize(
    ("name", "place", "code"),
    [
        ("SIGINT", f"{FIRST}/{FREES_IMPORT_LOCK}", -signal.SIGINT),
        ("SIGTERM", "_serve", -signal.SIGTERM),
        ("SIGTERM", f"_run/{FREES_IMPORT_LOCK}", 0),
    ],
)
def test_a_signal_ends_serve_before_it_serves(
    name: str, place: str, code: int, tmp_path: Path
) -> None:
    done = signalled(name, place, SERVE, tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr == f"signal at {place.split('/')[-1]}\n"


SIGNALLED_TWICE: Final = """
import asyncio, signal, sys
from odradek.cli.serve import _set_by_signals

async def main():
    stopping = asyncio.Event()
    with _set_by_signals(stopping):
        signal.raise_signal(int(sys.argv[1]))
        await stopping.wait()
        print("stops", flush=True)
        signal.raise_signal(int(sys.argv[1]))

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_same_signal_again_ends_serve_at_once(number: signal.Signals) -> None:
    command = [sys.executable, "-c", SIGNALLED_TWICE, str(int(number))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    assert (done.returncode, done.stdout, done.stderr) == (-number, "stops\n", "")


@pytest.mark.parametrize("place", ["Popen._execute_child", "run_command.<locals>.unblock"])
def test_an_interrupt_of_the_terminal_ends_a_command_that_starts(place: str) -> None:
    """Before there is a process for it, and in that process before it is the command."""
    keyboard, terminal = pty.openpty()
    words = ["SIGINT", f"run_command/{place}", "run", "--", "sleep", str(2 * DEADLINE_S)]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.cli.signal_at", *words],
        env={**os.environ, "KEYBOARD": str(keyboard)},
        pass_fds=[keyboard],
        stdin=terminal,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:
        try:
            _, log = process.communicate(timeout=DEADLINE_S)
        finally:
            process.kill()
    os.close(keyboard)
    os.close(terminal)
    assert process.returncode == 128 + signal.SIGINT, log
    assert re.fullmatch(rf"signal at {re.escape(place)}\n(calls=\d+\n)?", log)


def calls_after(place: str, arguments: Sequence[str], cwd: Path) -> int:
    """How many functions are called from a place on, until these arguments end on their own."""
    counted = signalled("SIGINT", f"{place}/none", arguments, cwd)
    found = re.fullmatch(r"(?s)(?:.*\n)?calls=(\d+)\n", counted.stderr)
    assert found is not None, counted
    return int(found[1])


def places(calls: int) -> list[str]:
    """Evenly over so many calls."""
    step = calls // PLACES
    return [f"{FIRST}/{number}" for number in range(step, calls, step)]


@pytest.mark.soak
def test_an_interrupt_ends_run_at_any_place_before_its_command(tmp_path: Path) -> None:
    calls, after = (calls_after(p, RUN, tmp_path) for p in (FIRST, f"{FIRST}/run_command"))
    for place in places(calls - after):
        done = signalled("SIGINT", place, RUN, tmp_path)
        assert done.returncode in (-signal.SIGINT, 128 + signal.SIGINT), (place, done)
        assert re.fullmatch(r"signal at .+\n", done.stderr), (place, done)
        assert done.stdout == "", (place, done)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_serve_at_any_place(name: str, tmp_path: Path) -> None:
    """Also at places of its end, which begins at once as its input is empty."""
    for place in places(calls_after(FIRST, (*SERVE, "--stop-with-stdin"), tmp_path)):
        done = signalled(name, place, (*SERVE, "--stop-with-stdin"), tmp_path)
        assert done.returncode in (-signal.Signals[name], 0), (place, done)
        assert re.fullmatch(r"signal at .+\n", done.stderr), (place, done)
