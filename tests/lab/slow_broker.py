"""A broker with a slow disk: `python -m tests.lab.slow_broker DELAYS serve …`.

DELAYS is a file that holds a JSON object, {"read": s, "write": s, "fsync": s}, and is looked at
before every call; while there is none the disk is as fast as it is.  What is read by sendfile, or
by jobs in processes of their own, comes from the machine's own disk.
"""

import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from odradek.broker.runtime import Runtime
from odradek.cli import main as odradek
from odradek.storage.files import RealFileSystem
from odradek.storage.log.log_file import Bytes, LogFile

READ: Final = "read"
WRITE: Final = "write"
FSYNC: Final = "fsync"


class SlowFileSystem(RealFileSystem):
    """The machine's own disk, with delays by kind of call."""

    def __init__(self, files: RealFileSystem, delays: str) -> None:
        super().__init__(open_files_max=files.open_files_max)
        self._delays = delays
        self._read_at = 0
        self._seconds: dict[str, float] = {}

    def wait(self, kind: str) -> None:
        """As long as such a call shall take."""
        try:
            changed_at = os.stat(self._delays).st_mtime_ns
            if changed_at != self._read_at:
                self._seconds = json.loads(Path(self._delays).read_text())
                self._read_at = changed_at
        except FileNotFoundError:
            return
        time.sleep(self._seconds.get(kind, 0))

    def open_log(self, path: str, size_bytes: int) -> LogFile:
        return SlowLogFile(self, path, size_bytes)

    def fsync(self, descriptor: int) -> None:
        self.wait(FSYNC)
        super().fsync(descriptor)

    def create(self, path: str) -> None:
        self.wait(WRITE)
        super().create(path)

    def read_bytes(self, path: str) -> bytes | None:
        self.wait(READ)
        return super().read_bytes(path)

    def rename(self, path: str, new_path: str) -> None:
        self.wait(WRITE)
        super().rename(path, new_path)

    def unlink(self, path: str) -> None:
        self.wait(WRITE)
        super().unlink(path)

    def _write(self, path: str, data: Bytes, *, sync: bool) -> None:
        self.wait(WRITE)
        super()._write(path, data, sync=sync)


class SlowLogFile(LogFile):
    """A log file of it."""

    __slots__ = ()
    _files: SlowFileSystem

    def append(self, data: Bytes) -> int:
        self._files.wait(WRITE)
        return super().append(data)

    def write_all(self, descriptor: int, data: memoryview, position: int) -> None:
        self._files.wait(WRITE)
        super().write_all(descriptor, data, position)

    def pread(self, size_bytes: int, position: int) -> bytes:
        self._files.wait(READ)
        return super().pread(size_bytes, position)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        self._files.wait(READ)
        return super().pread_into(buffer, position)

    def truncate(self, size_bytes: int) -> None:
        self._files.wait(WRITE)
        super().truncate(size_bytes)


def write_delays(path: Path, delays: Mapping[str, float]) -> None:
    """For brokers that look there: at once as a whole; none, and the disk is fast again."""
    if not delays:
        path.unlink(missing_ok=True)
        return
    temporary = path.with_suffix(".new")
    temporary.write_text(json.dumps(dict(delays)))
    temporary.replace(path)


def main() -> None:
    """Odradek's command line, with such a disk."""
    delays = sys.argv.pop(1)
    system = Runtime.system

    def slow(*, syncs: bool = True) -> Runtime:
        runtime = system(syncs=syncs)
        assert isinstance(runtime.files, RealFileSystem)
        return replace(runtime, files=SlowFileSystem(runtime.files, delays))

    Runtime.system = slow  # type: ignore[method-assign]
    odradek()


if __name__ == "__main__":
    main()
