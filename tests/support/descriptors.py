"""Which files this process has open."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

DESCRIPTORS = "/proc/self/fd"


def open_below(root: Path) -> list[str]:
    """Return the paths below `root` that are open, one for each descriptor, sorted.

    What else the process has open, and other threads open and close meanwhile, does not count.
    """
    return sorted(path for path in _open_paths() if path.startswith(f"{root.resolve()}/"))


def _open_paths() -> Iterator[str]:
    for name in os.listdir(DESCRIPTORS):
        with suppress(OSError):  # it has been closed since the names were listed
            yield os.readlink(f"{DESCRIPTORS}/{name}")
