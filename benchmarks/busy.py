"""Keep every core awake, so that a latency is the broker's and not the processor's wake-up.

An idle virtual machine takes tens of microseconds to wake a core.  One loop per core at the lowest
priority keeps them running and yields at once to whoever has work; both brokers get the same.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

# It ends by itself when its parent is gone.
LOOP: Final = """import os
os.nice(19)
parent = int(os.sys.argv[1])
while os.getppid() == parent:
    for _ in range(1_000_000):
        pass
"""


@contextmanager
def busy_cores() -> Iterator[None]:
    """One niced busy loop per core for as long as the block runs."""
    command = [sys.executable, "-c", LOOP, str(os.getpid())]
    loops = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
