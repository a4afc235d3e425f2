"""What Spark's JVM writes while it starts: fifty lines of Ivy and log4j, of use if it fails."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

_STDERR: Final = 2
_READ_BYTES: Final = 1 << 16


@contextmanager
def held_back() -> Iterator[None]:
    """Launch a JVM in the block: what it writes there is shown only if the block fails.

    What it writes later, as long as it lives, goes to stderr as ever.
    """
    shown = os.dup(_STDERR)
    reading, writing = os.pipe()
    relay = _Relay(reading, shown)
    os.dup2(writing, _STDERR)
    os.close(writing)
    threading.Thread(target=relay.run, name="spark-stderr", daemon=True).start()
    try:
        yield
    except Exception:
        relay.show(what_was_held=True)
        raise
    finally:
        os.dup2(shown, _STDERR)
        relay.show(what_was_held=False)


class _Relay:
    """Reads what is written to a pipe until every writer has closed it."""

    def __init__(self, reading: int, shown: int) -> None:
        self._reading = reading
        self._shown = shown
        self._held: list[bytes] | None = []
        self._lock = threading.Lock()

    def run(self) -> None:
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
