"""SIGTERM and SIGINT as requests to stop, so that a job can finish what it is doing."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final

SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class Stop(threading.Event):
    """Set by the first signal; `now` by the second."""

    now = False


@contextmanager
def stop_signals(*, caught: int = 1) -> Iterator[Stop]:
    """Catch the first `caught` signals; later ones go to the previous handlers.

    Outside of the main thread none are caught: there, the caller has to stop the job.
    """
    stop = Stop()
    came = 0
    before: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        nonlocal came
        came += 1
        stop.now = stop.is_set()
        stop.set()
        if came == caught:
            restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    if threading.current_thread() is threading.main_thread():
        for number in SIGNALS:
            before[number] = signal.signal(number, note)
    try:
        yield stop
    finally:
        restore()
