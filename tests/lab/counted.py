"""`odradek serve` that tells what it has: after SIGUSR1 that is in a file, as JSON.

`python -m tests.lab.counted FILE serve ...`

`tasks`: how many there are.  `turn_ms`: how long the processor worked on the longest turn of the
loop since the file was written last, in which nobody else was served.
"""

import asyncio
import json
import signal
import sys
import time
from pathlib import Path

from odradek.cli import main

_run_once = asyncio.BaseEventLoop._run_once  # type: ignore[attr-defined]
longest_s = 0.0


def turn(loop: asyncio.BaseEventLoop) -> None:
    """Do what the loop does, and measure it without its waiting."""
    global longest_s
    began_s = time.thread_time()
    _run_once(loop)
    longest_s = max(longest_s, time.thread_time() - began_s)


def serve() -> None:
    """Serve; the signal's handler runs on the thread of the loop."""
    path = Path(sys.argv.pop(1))
    asyncio.BaseEventLoop._run_once = turn  # type: ignore[attr-defined]

    def count(*_: object) -> None:
        global longest_s
        found = {"tasks": len(asyncio.all_tasks()), "turn_ms": longest_s * 1000}
        longest_s = 0.0
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(found))
        fresh.replace(path)

    signal.signal(signal.SIGUSR1, count)
    main()


if __name__ == "__main__":
    serve()
