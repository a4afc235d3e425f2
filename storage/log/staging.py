"""Batches that a thread writes past the end of a log file, before they belong to the log.

Bytes beyond `LogFile.size_bytes` are not part of the log: nothing reads them, and a crash leaves
the same state as a crash during an append. The append that follows finds the bytes in place and
writes nothing. Any other change of the file's end drops the staged batches first: the thread stops
writing, and the file is cut to the log's end.
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
"""`end`, which the event loop may call, waits at most until this many bytes are written."""


class StagedBatch(NamedTuple):
    """A whole batch, with its header."""

    data: memoryview
    header: BatchHeader


class Staged:
    """The staged batches of one file; made by `LogFile.stage`, ended by `close`."""

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
        self._descriptor = file.duplicate()  # since the file may close its own meanwhile

    def run(self) -> None:
        """Write the batches, in any thread.  Errors are ignored: the append will raise them."""
        with contextlib.suppress(OSError):
            for start in range(0, len(self._data), STEP_BYTES):
                with self._lock:
                    if self._has_ended:
                        return
                    step = self._data[start : start + STEP_BYTES]
                    self._write(step, self._position + start)
            self._written = iter(self.batches)

    def is_next(self, data: "Bytes") -> bool:
        """Whether this very object is the next batch, and was written."""
        batch = next(self._written, None)
        return batch is not None and batch.data is data

    def close(self) -> None:
        """Cut off the batches that were not appended.  Idempotent."""
        self._file.drop(self)

    def end(self) -> None:
        """Stop writing and cut the file; only for `LogFile` to call."""
        self._has_ended = True
        with self._lock:  # a thread may be in the middle of a step
            pass
        size_bytes = self._file.size_bytes
        with contextlib.suppress(OSError):  # the remains are outside the log: see `LogFile.append`
            self._end(size_bytes if size_bytes < self._position + len(self._data) else None)

    # Overridden by simulated disks.

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
