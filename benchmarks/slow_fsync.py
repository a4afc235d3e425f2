"""Build `slow_fsync.c` and say with which environment a broker gets it."""

import os
import struct
import subprocess
from pathlib import Path
from typing import Final

SOURCE: Final = Path(__file__).with_suffix(".c")


class SlowFsync:
    """A preloaded library that delays every fsync of a process and counts them."""

    def __init__(self, directory: Path, *, delay_us: int) -> None:
        """Compile into the directory with the system's C compiler."""
        directory.mkdir(parents=True, exist_ok=True)
        self._library = directory / "slow_fsync.so"
        self._count = directory / "fsync-count"
        self._delay_us = delay_us
        compiler = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"]
        subprocess.run([*compiler, str(self._library), str(SOURCE), "-ldl"], check=True)

    @property
    def env(self) -> dict[str, str]:
        """The environment of the process to slow down."""
        return {
            **os.environ,
            "LD_PRELOAD": str(self._library),
            "SLOW_FSYNC_US": str(self._delay_us),
            "SLOW_FSYNC_COUNT": str(self._count),
        }

    @property
    def count(self) -> int:
        """How many fsyncs there were; 0 also when the library was not loaded."""
        if not self._count.exists():
            return 0
        return int(struct.unpack("=Q", self._count.read_bytes()[:8])[0])
