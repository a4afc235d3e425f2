"""`python -m tests.cli.signal_at SIGNAL PLACE ARGUMENTS…`: `odradek ARGUMENTS` with a signal.

PLACE is names of functions and counts of calls: at `run/start/5`, the signal comes at the fifth
call of any function after the first one of `start` after the first one of `run`. If it is not
reached, the count of calls since the last part that was is printed at the end.

With a descriptor of a terminal's other end in KEYBOARD, somebody presses Ctrl-C there instead, at
a place where SIGINT is blocked.
"""

import atexit
import os
import runpy
import signal
import sys
import time
from types import FrameType
from typing import Any


class Watch:
    """Looks at each call of a function."""

    def __init__(self, name: str, place: str) -> None:
        self._signal = signal.Signals[name]
        self._parts = place.split("/")
        self._calls = 0

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        self._calls += 1
        name = frame.f_code.co_qualname
        if self._parts[0] in (name, str(self._calls)):
            del self._parts[0]
            self._calls = 0
        if not self._parts:
            sys.setprofile(None)
            print(f"signal at {name}", file=sys.stderr, flush=True)
            self._send()

    def _send(self) -> None:
        if "KEYBOARD" in os.environ:
            os.write(int(os.environ["KEYBOARD"]), b"\x03")
            while signal.SIGINT not in signal.sigpending():  # the terminal takes a moment
                time.sleep(0.001)
        else:
            os.kill(os.getpid(), self._signal)

    def end(self) -> None:
        sys.setprofile(None)
        if self._parts:
            print(f"calls={self._calls}", file=sys.stderr)


def main() -> None:
    _, name, place, *arguments = sys.argv
    watch = Watch(name, place)
    atexit.register(watch.end)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells may have it ignored
    sys.argv = ["odradek", *arguments]
    sys.setprofile(watch)
    runpy.run_module("odradek", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
