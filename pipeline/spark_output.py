"""What Spark's JVM writes while it starts: fifty lines of Ivy and log4j, of use if it fails."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .errors import PipelineError

_STDERR: Final = 2
_READ_BYTES: Final = 1 << 16
# Written behind what the start has written, so that none of it is taken for what comes later.
_END_OF_START: Final = b"\0end of start\0"
_PATIENCE_S: Final = 5.0


@contextmanager
def held_back() -> Iterator["Held"]:
    """Launch a JVM in the block: what it writes there is shown only if the block fails.

    A PipelineError says itself what matters; with another error it is shown.
    What it writes later, as long as it lives, goes to stderr as ever.
    """
    shown = os.dup(_STDERR)
    reading, writing = os.pipe()
    relay = Held(reading, shown)
    os.dup2(writing, _STDERR)
    threading.Thread(target=relay.run, name="spark-stderr", daemon=True).start()
    try:
        yield relay
    except PipelineError:  # says all that matters
        raise
    except Exception:
        relay.end(writing)
        relay.show()
        raise
    finally:
        relay.end(writing)
        os.dup2(shown, _STDERR)
        os.close(writing)


class Held:
    """Reads what is written to a pipe until every writer has closed it."""

    def __init__(self, reading: int, shown: int) -> None:
        self._reading = reading
        self._shown = shown
        self._held = b""
        self._ended = threading.Event()

    def text(self) -> str:
        """What was written so far."""
        return self._held.decode(errors="replace")

    def run(self) -> None:
        """Read to the end, in a thread of its own."""
        while data := os.read(self._reading, _READ_BYTES):
            if self._ended.is_set():
                self._write(data)
                continue
            self._held, end, later = (self._held + data).partition(_END_OF_START)
            if end:
                self._ended.set()
                self._write(later)

    def end(self, writing: int) -> None:
        """Return when all that was written so far is held; from here on show what comes."""
        if not self._ended.is_set():
            os.write(writing, _END_OF_START)
            self._ended.wait(_PATIENCE_S)

    def show(self) -> None:
        """Show what was held."""
        self._write(self._held)

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # nobody reads stderr any more
            os.write(self._shown, data)
