"""The end of a verifiable client's process: its lines in the history, its orders, its progress.

A child is given a JSON object as its only argument, notes events in the file that `history` names,
tells its progress on stdout and ends when its stdin does.
"""

import json
import os
import select
import sys
import threading
import time
from typing import Any, Final

from .events import line

FLUSH_S: Final = 0.1
# Blocks of whole lines are appended with one call each, so that processes can share the file.
BLOCK_BYTES: Final = 32_768


class Notes:
    """Events of one process on their way into the history; safe to use from several threads."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._size = 0
        self._flushed_s = time.monotonic()

    def note(self, event: Any) -> None:
        """Take an event; it is written with others."""
        text = line(event)
        with self._lock:
            self._lines.append(text)
            self._size += len(text)
            late = time.monotonic() - self._flushed_s > FLUSH_S
            if late or self._size > BLOCK_BYTES:
                self._flush()

    def flush(self) -> None:
        """Write what was taken."""
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        data = "".join(self._lines).encode()
        self._lines.clear()
        self._size = 0
        self._flushed_s = time.monotonic()
        if data:
            written = os.write(self._file, data)
            assert written == len(data), "the history's disk is full"


def spec() -> dict[str, Any]:
    """What this process was told to do."""
    found: dict[str, Any] = json.loads(sys.argv[1])
    return found


def told_to_stop() -> bool:
    """Whether stdin has ended; never waits."""
    return bool(select.select([sys.stdin], [], [], 0)[0])


def tell(**progress: int | float | str) -> None:
    """A line for the parent."""
    try:
        print(json.dumps(progress), flush=True)
    except BrokenPipeError:
        os._exit(1)  # the parent has died: nobody will ever stop this process


def now_s() -> float:
    """Wall time, to the millisecond."""
    return round(time.time(), 3)
