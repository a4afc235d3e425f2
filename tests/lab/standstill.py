"""A clock that stands still whenever the machine does.

What the specification allows a cluster is the cluster's: what the machine takes away meanwhile is
not. Who wants to run all the time, and for a while cannot, has seen such a stop.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from .background import Background

LOOK_S: Final = 0.02
# For so long anybody may wait now and then on a crowded machine; only what is longer is a stop.
CROWDED_S: Final = 0.1


class Standstill(Background):
    """Looks at the clock again and again.  It is of use inside the `with` only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__("standstill")
        self._clock = clock
        self._lock = threading.Lock()
        self._looked_s = clock()
        self._longest_s = self._stood_s = 0.0

    def own_s(self) -> float:
        """The time, without all stops so far: a difference is what something took by itself."""
        with self._lock:
            now_s = self._clock()
            return now_s - self._stood_s - self._stop_s(now_s)

    @property
    def longest_s(self) -> float:
        """The longest time for which this process did not run: so may brokers have."""
        with self._lock:
            return max(self._longest_s, self._clock() - self._looked_s)

    def look(self) -> None:
        """Note what has passed since the last time."""
        with self._lock:
            now_s = self._clock()
            self._longest_s = max(self._longest_s, now_s - self._looked_s)
            self._stood_s += self._stop_s(now_s)
            self._looked_s = now_s

    def _stop_s(self, now_s: float) -> float:
        """How long the next look is late, but for what is usual: who asks may be awake before."""
        return max(0.0, now_s - self._looked_s - LOOK_S - CROWDED_S)

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()
