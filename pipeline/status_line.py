"""How far a job is: one line at the foot of a terminal, above which the log goes on."""

import logging
import os
import sys
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, Self, TextIO

_CLEAR_LINE: Final = "\r\x1b[K"
_COLUMNS_IF_UNKNOWN: Final = 80
_SHARE_MIN: Final = 1e-6
"""Of less nobody can say how long the rest takes."""


class StatusLine:
    """One line that is written over; nothing where there is no terminal.  A context manager.

    Until it is left, what is logged to the same terminal is written above the line.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._is_shown = self._out.isatty()
        self._line = ""
        self._handlers: list[logging.StreamHandler[Any]] = []
        self._lock = threading.Lock()  # a query's batches are told by a thread of py4j

    def show(self, line: str) -> None:
        """Replace the line; of one that is too long the beginning is shown."""
        if not self._is_shown:
            return
        with self._lock:
            self._line = _cut(line, self._columns())
            self._put(_CLEAR_LINE + self._line)

    def write(self, text: str) -> None:
        """Take whole lines of a log, as the stream of its handler."""
        with self._lock:
            self._put(_CLEAR_LINE + text + self._line)

    def flush(self) -> None:
        """As a stream's; nothing is held back."""

    def __enter__(self) -> Self:
        if self._is_shown:
            self._handlers = [
                handler
                for handler in logging.getLogger().handlers
                if isinstance(handler, logging.StreamHandler) and handler.stream is self._out
            ]
        for handler in self._handlers:
            handler.setStream(self)
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last line where it is, and go below it."""
        for handler in self._handlers:
            handler.setStream(self._out)
        if self._line:
            self._put("\n")

    def _put(self, text: str) -> None:
        """Write; a job goes on when its terminal has gone."""
        try:
            self._out.write(text)
            self._out.flush()
        except BlockingIOError:
            pass  # it is there, and slow
        except OSError:
            self._is_shown = False
            _to_nowhere(self._out, sys.stdout)

    def _columns(self) -> int:
        try:
            columns = os.get_terminal_size(self._out.fileno()).columns
        except OSError:
            columns = 0
        return columns or _COLUMNS_IF_UNKNOWN


def _to_nowhere(gone: TextIO, other: TextIO) -> None:
    """Let a terminal that has gone take all that is said to it, by another stream as well.

    Else what a job says last would fail, and Python at the end of the process.
    """
    terminal = os.fstat(gone.fileno())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (gone, other):
        with suppress(OSError):  # a stream that is no file of the system's
            if os.path.samestat(os.fstat(stream.fileno()), terminal):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def time_left(share: float, elapsed_s: float) -> str:
    """`, 0:01:10 left`, if the rest takes as long as the share that is done; nothing before."""
    if share < _SHARE_MIN:
        return ""
    return f", {timedelta(seconds=round(elapsed_s * (1 - share) / share))} left"


def _cut(line: str, columns: int) -> str:
    """So that it does not go on in the next row."""
    return line if len(line) < columns else f"{line[: max(0, columns - 2)]}…"
