"""`odradek serve` that tells how many tasks it has: after SIGUSR1 the number is in a file.

`python -m tests.lab.counted FILE serve ...`
"""

import asyncio
import signal
import sys
from pathlib import Path

from odradek.cli import main


def serve() -> None:
    """Serve; the signal's handler runs on the thread of the loop."""
    path = Path(sys.argv.pop(1))

    def count(*_: object) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(str(len(asyncio.all_tasks())))
        fresh.replace(path)

    signal.signal(signal.SIGUSR1, count)
    main()


if __name__ == "__main__":
    serve()
