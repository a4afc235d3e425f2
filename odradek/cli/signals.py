"""SIGINT and SIGTERM for `produce` and `consume`: they end once what was begun is done."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

EXIT_INTERRUPTED: Final = 130


@dataclass(slots=True)
class Interruption:
    """Whether a signal came."""

    seen: bool = False


@contextmanager
def interruptible() -> Iterator[Interruption]:
    """Note the first signal; a second one raises KeyboardInterrupt, as something may be stuck."""
    interruption = Interruption()

    def interrupt(_number: int, _frame: object) -> None:
        if interruption.seen:
            raise KeyboardInterrupt
        interruption.seen = True

    before = {
        number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield interruption
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
