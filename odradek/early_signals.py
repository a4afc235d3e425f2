"""SIGINT and SIGTERM before a command has begun anything: they end the process at once.

Python would raise KeyboardInterrupt. That prints a traceback while modules are imported, and is
dropped where Python can't raise: in a finalizer, or in the callback that frees an import's lock.
"""

import os
import signal
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
EXIT_SIGNALLED: Final = 128
"""Plus the number of the signal, as in shells."""


def end_at_once(number: int, frame: FrameType | None) -> None:
    """A handler that ends the process as the signal itself does, without tidying up."""
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    os._exit(EXIT_SIGNALLED + number)  # the first process of a container: a signal can't end it


def end_at_signals() -> None:
    """Let both end the process at once; one that is ignored stays ignored, as with nohup."""
    for number in SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, end_at_once)


def raise_at_interrupts() -> None:
    """Undo that: SIGINT raises KeyboardInterrupt."""
    if signal.getsignal(signal.SIGINT) is end_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGTERM) is end_at_once:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
