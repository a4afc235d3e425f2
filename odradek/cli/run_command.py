"""Runs a command as a shell would: with its exit code, and the signals that are meant for it.

Ctrl-C in a terminal reaches the command without help, as it is in this process's group. A SIGINT
that somebody sends to this process alone does not, and is passed on. The system tells which it was.
"""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from odradek.early_signals import EXIT_SIGNALLED

from .errors import CommandError

EXIT_NOT_FOUND: Final = 127
EXIT_NOT_EXECUTABLE: Final = 126
"""What shells answer."""
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_TIMEOUT_S: Final = 30
POLL_S: Final = 0.05


def run_command(words: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command, and return the exit code that a shell would give it.

    This process must have no other thread, to which the system would give its signals.
    """
    ending = taken()
    with _blocked(ending) as (numbers, before):

        def unblock() -> None:  # in the child: a Ctrl-C that has reached it ends it
            for number in ending:
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

        try:
            process = subprocess.Popen(words, env=environment, preexec_fn=unblock)
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            failure = EXIT_NOT_FOUND if is_missing else EXIT_NOT_EXECUTABLE
            return failed(f"cannot run {words[0]}: {error.strerror}", failure)
        code = _wait(process, numbers)
    return EXIT_SIGNALLED - code if code < 0 else code


def failed(sentence: str, code: int) -> int:
    """Say why, and return the exit code."""
    CommandError(sentence).show()
    return code


def taken() -> list[signal.Signals]:
    """The signals that end a process, but those that are ignored (by nohup, say)."""
    return [number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN]


@contextmanager
def _blocked(
    numbers: Sequence[signal.Signals],
) -> Iterator[tuple[set[signal.Signals], set[signal.Signals]]]:
    """Let these signals, and that of a child's end, wait to be asked for.

    Yields them, and the mask of before. Those that nobody has asked for are forgotten at the end:
    the command has got them, too, or had ended.
    """
    waited = {*numbers, signal.SIGCHLD}
    child_before = signal.signal(signal.SIGCHLD, lambda *_: None)  # else it need not wait
    before = {signal.Signals(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, waited)}
    try:
        yield waited, before
    finally:
        while pending := signal.sigpending() & waited:
            signal.sigwait(pending)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        signal.signal(signal.SIGCHLD, child_before)


def _wait(process: "subprocess.Popen[bytes]", numbers: set[signal.Signals]) -> int:
    """Pass signals on to a process until it ends; return its code, negative if a signal did it."""
    early = signal.sigpending()  # also by a Ctrl-C before there was a process
    kill_at_s: float | None = None
    while (code := process.poll()) is None:
        came = _next_signal(numbers, kill_at_s)
        if came is None:
            process.kill()
            sentence = f"the command went on for {END_TIMEOUT_S} s after SIGTERM, and was killed"
            return failed(sentence, process.wait())
        number, is_only_here = came
        if number == signal.SIGCHLD:
            continue
        if is_only_here or number in early:
            process.send_signal(number)
            early.discard(signal.Signals(number))
        process.send_signal(signal.SIGCONT)  # one that was stopped would not notice
        if number == signal.SIGTERM and kill_at_s is None:
            kill_at_s = time.monotonic() + END_TIMEOUT_S
    return code


def _next_signal(numbers: set[signal.Signals], until_s: float | None) -> tuple[int, bool] | None:
    """Wait for a signal, perhaps until a time; whether only this process has got it."""
    if sys.platform == "darwin":
        return _next_on_darwin(numbers, until_s)
    came: signal.struct_siginfo | None
    if until_s is None:
        came = signal.sigwaitinfo(numbers)
    else:
        came = signal.sigtimedwait(numbers, max(0, until_s - time.monotonic()))
    if came is None:
        return None
    is_of_the_terminal = came.si_signo == signal.SIGINT and came.si_code > 0  # > 0: the kernel
    return came.si_signo, not is_of_the_terminal


def _next_on_darwin(numbers: set[signal.Signals], until_s: float | None) -> tuple[int, bool] | None:
    """As `_next_signal`: the system does not tell where a signal came from, nor wait for a time."""
    while until_s is not None and not signal.sigpending() & numbers:
        if time.monotonic() > until_s:
            return None
        time.sleep(POLL_S)
    number = int(signal.sigwait(numbers))
    return number, number != signal.SIGINT
