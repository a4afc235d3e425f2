"""SIGINT and SIGTERM for `produce` and `consume`: they end once what was begun is done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from odradek.pipeline.stop_signals import Stop, stop_signals

EXIT_INTERRUPTED: Final = 130


@contextmanager
def interruptible() -> Iterator[Stop]:
    """Note the first signal; a second one raises KeyboardInterrupt, as something may be stuck."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with stop_signals() as stop:
            yield stop
    finally:
        signal.signal(signal.SIGTERM, before)
