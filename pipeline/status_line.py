"""A job's progress: one line at the bottom of the terminal, with log lines above it."""

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
"""With a smaller share, the time left cannot be estimated."""


class StatusLine:
    """One line that is overwritten; shows nothing without a terminal.  A context manager.

    Within the context, log lines for the same terminal are written above the line.
    """

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stderr
        self._is_shown = self._out.isatty()
        self._line = ""
        self._handlers: list[logging.StreamHandler[Any]] = []
        self._lock = threading.Lock()  # progress events of a query come from a py4j thread

    def show(self, line: str) -> None:
        """Replace the line; one that is too long is truncated."""
        if not self._is_shown:
            return
        with self._lock:
            self._line = _cut(line, self._columns())
            self._put(_CLEAR_LINE + self._line)

    def write(self, text: str) -> None:
        """Write whole log lines above the line, as the stream of a log handler."""
        with self._lock:
            self._put(_CLEAR_LINE + text + self._line)

    def flush(self) -> None:
        """Part of the stream interface; nothing is buffered."""

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
        """Leave the last line where it is, and continue below it."""
        for handler in self._handlers:
            handler.setStream(self._out)
        if self._line:
            self._put("\n")

    def _put(self, text: str) -> None:
        """Write; a job goes on when its terminal is gone."""
        try:
            self._out.write(text)
            self._out.flush()
        except BlockingIOError:
            pass  # the terminal is only slow
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
    """Redirect output for a terminal that is gone to /dev/null, also that of the other stream.

    Otherwise the job's last output would fail, and Python's at exit.
    """
    terminal = os.fstat(gone.fileno())
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (gone, other):
        with suppress(OSError):  # a stream without a file descriptor
            if os.path.samestat(os.fstat(stream.fileno()), terminal):
                os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def time_left(share: float, elapsed_s: float) -> str:
    """`, 0:01:10 left`, extrapolated from the share that is done; empty if that is too small."""
    if share < _SHARE_MIN:
        return ""
    return f", {timedelta(seconds=round(elapsed_s * (1 - share) / share))} left"


def _cut(line: str, columns: int) -> str:
    """Truncate a line so that it does not wrap."""
    return line if len(line) < columns else f"{line[: max(0, columns - 2)]}…"
