"""Runs a command as a shell would: with its exit code, and the signals that are meant for it.

Ctrl-C in a terminal reaches the command without help, as it is in this process's group. A SIGINT
that somebody sends to this process alone does not, and is passed on. The system tells which it was.
"""

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from odradek.early_signals import EXIT_SIGNALLED

from .errors import CommandError

EXIT_NOT_FOUND: Final = 127
EXIT_NOT_EXECUTABLE: Final = 126
"""What shells answer."""
ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
        while came := signal.sigpending().intersection(ending):
            process.send_signal(signal.sigwait(came))  # by a Ctrl-C before there was a command, too
        while (code := process.poll()) is None:
            number, is_for_the_command = _next_signal(numbers)
            if is_for_the_command and number != signal.SIGCHLD:
                process.send_signal(number)
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


def _next_signal(numbers: set[signal.Signals]) -> tuple[int, bool]:
    """Wait for a signal; whether only this process has got it."""
    if sys.platform == "darwin":  # does not tell where it came from
        number = int(signal.sigwait(numbers))
        return number, number != signal.SIGINT
    came = signal.sigwaitinfo(numbers)
    is_of_the_terminal = came.si_signo == signal.SIGINT and came.si_code > 0  # > 0: the kernel
    return came.si_signo, not is_of_the_terminal
