"""Batches that a thread writes past the end of a log file, before they belong to the log.

What lies beyond `LogFile.size_bytes` counts for nothing: nobody reads it, and a crash leaves what a
crash in the middle of an append leaves. The append that follows finds the bytes in their place and
writes nothing. Whoever else changes the end of the file has them dropped first: nobody writes them
any more, and the file is cut where the log ends.
"""

import contextlib
import os
import threading  # noqa: TID251 - for its lock; no thread starts here
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.records import BatchHeader

if TYPE_CHECKING:
    from .log_file import Bytes, LogFile

STEP_BYTES: Final = 1 << 20
"""A caller that comes in between waits for so much at most; it may be the broker's loop."""


class StagedBatch(NamedTuple):
    """A whole batch."""

    data: memoryview
    header: BatchHeader


class Staged:
    """What is staged in one file; made by `LogFile.stage`, over with `close`."""

    __slots__ = (
        "_data",
        "_descriptor",
        "_file",
        "_has_ended",
        "_lock",
        "_position",
        "_written",
        "batches",
    )

    def __init__(self, file: "LogFile", data: memoryview, batches: Sequence[StagedBatch]) -> None:
        """`data`: `batches` in a row.  Raises: LogDirFailed, OSError (too many descriptors)."""
        self.batches = batches
        self._file = file
        self._data = data
        self._position = file.size_bytes
        self._written: Iterator[StagedBatch] = iter(())
        self._lock = threading.Lock()
        self._has_ended = False
        self._descriptor = file.duplicate()  # the file's own may be closed meanwhile

    def run(self) -> None:
        """Write them, in any thread.  What fails here the append meets too, and tells of it."""
        with contextlib.suppress(OSError):
            for start in range(0, len(self._data), STEP_BYTES):
                with self._lock:
                    if self._has_ended:
                        return
                    step = self._data[start : start + STEP_BYTES]
                    self._write(step, self._position + start)
            self._written = iter(self.batches)

    def is_next(self, data: "Bytes") -> bool:
        """Whether this very object was written and comes next."""
        batch = next(self._written, None)
        return batch is not None and batch.data is data

    def close(self) -> None:
        """Cut off what was not taken over.  May be repeated."""
        self._file.drop(self)

    def end(self) -> None:
        """Let nothing be written from here on, and cut; only for the file itself."""
        self._has_ended = True
        with self._lock:  # a thread may be in the middle of a step
            pass
        size_bytes = self._file.size_bytes
        with contextlib.suppress(OSError):  # the remains are outside the log: see `LogFile.append`
            self._end(size_bytes if size_bytes < self._position + len(self._data) else None)

    # What differs between disks.

    def _write(self, data: memoryview, position: int) -> None:
        """Raises: OSError."""
        self._file.write_all(self._descriptor, data, position)

    def _end(self, cut_to_bytes: int | None) -> None:
        """Raises: OSError."""
        try:
            if cut_to_bytes is not None:
                os.ftruncate(self._descriptor, cut_to_bytes)
        finally:
            os.close(self._descriptor)
