"""What Spark's JVM writes while it starts: fifty lines of Ivy and log4j, of use if it fails."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .errors import PipelineError

_STDERR: Final = 2
_READ_BYTES: Final = 1 << 16


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
    os.close(writing)
    threading.Thread(target=relay.run, name="spark-stderr", daemon=True).start()
    try:
        yield relay
    except PipelineError:  # says all that matters
        raise
    except Exception:
        relay.show(what_was_held=True)
        raise
    finally:
        os.dup2(shown, _STDERR)
        relay.show(what_was_held=False)


class Held:
    """Reads what is written to a pipe until every writer has closed it."""

    def __init__(self, reading: int, shown: int) -> None:
        self._reading = reading
        self._shown = shown
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()

    def text(self) -> str:
        """What was written so far."""
        with self._lock:
            return b"".join(self._held or ()).decode(errors="replace")

    def run(self) -> None:
        """Read to the end, in a thread of its own."""
        while data := os.read(self._reading, _READ_BYTES):
            with self._lock:
                if self._held is not None:
                    self._held.append(data)
                else:
                    self._write(data)

    def show(self, *, what_was_held: bool) -> None:
        """From here on show what comes, and perhaps what has come."""
        with self._lock:
            if what_was_held and self._held:
                self._write(b"".join(self._held))
            self._held = None

    def _write(self, data: bytes) -> None:
        with suppress(OSError):  # nobody reads stderr any more
            os.write(self._shown, data)
