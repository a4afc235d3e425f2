"""A log file whose descriptor is opened on demand and closed when idle.

A file with references (spans being sent, a running fsync) keeps its descriptor until the last
reference is released, even if it is unlinked or renamed meanwhile.
"""

import contextlib
import errno
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NoReturn

from ..errors import DiskFull, LogDirFailed
from .staging import Staged, StagedBatch

if TYPE_CHECKING:
    from ..files import RealFileSystem
    from .span import Span

Bytes = bytes | bytearray | memoryview

_CLOSED: Final = -1
_FAILED: Final = -2
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def fail(path: str, error: OSError) -> NoReturn:
    """Raise the storage error for an OSError.  Raises: DiskFull, LogDirFailed."""
    kind = DiskFull if error.errno in _FULL else LogDirFailed
    raise kind(f"{path}: {error.strerror or error}", path) from error


def fail_sync(path: str, error: OSError) -> NoReturn:
    """Raise for a failed fsync, which is never just a full disk.  Raises: LogDirFailed."""
    raise LogDirFailed(f"{path}: fsync: {error.strerror or error}", path) from error


@contextlib.contextmanager
def guarded(path: str) -> Iterator[None]:
    """Turn an OSError of the block into DiskFull or LogDirFailed."""
    try:
        yield
    except OSError as error:
        fail(path, error)


class LogFile:
    """An append-only file, readable at any position, whose descriptor is opened on demand.

    `size_bytes` is the number of bytes that belong to the log. Anything beyond it on disk, left by
    a failed write, is ignored, and later overwritten or cut off.
    """

    __slots__ = (
        "_closing",
        "_descriptor",
        "_files",
        "_references",
        "_staged",
        "path",
        "recently_used",
        "size_bytes",
        "spans",
    )

    def __init__(self, files: "RealFileSystem", path: str, size_bytes: int) -> None:
        self._files = files
        self._descriptor = _CLOSED
        self._references = 0
        self._closing = False
        self._staged: Staged | None = None
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False
        self.spans: set[Span] | None = None

    def append(self, data: Bytes) -> int:
        """Write at the end; return the position.  A failure changes nothing.

        Raises: DiskFull, LogDirFailed.
        """
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self.descriptor()
        position = self.size_bytes
        if self._staged is not None and self._takes_over(data):
            return position
        try:
            written = os.pwrite(descriptor, data, position)
            if written != len(data):
                self.write_all(descriptor, memoryview(data)[written:], position + written)
        except OSError as error:
            # Half a batch may be written.  If even ftruncate fails, the remains are outside the
            # log: the next write starts at the same position, and recovery cuts them off.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, position)
            fail(self.path, error)
        self.size_bytes = position + len(data)
        return position

    def write_all(self, descriptor: int, data: memoryview, position: int) -> None:
        """Write all of `data`: after a short write the next one raises the real error.

        May run in any thread, with the caller's own descriptor.  Raises: OSError.
        """
        written = 0
        while written < len(data):
            more = os.pwrite(descriptor, data[written:], position + written)
            if more <= 0:
                raise OSError(errno.ENOSPC, "write made no progress", self.path)
            written += more

    def stage(self, data: memoryview, batches: Sequence[StagedBatch]) -> Staged | None:
        """Prepare `batches`, which make up `data`, for a thread to write past the end of the file.

        After `Staged.run`, appending the same objects writes nothing. None: the process has no
        spare descriptor; an append needs none.  Raises: LogDirFailed.
        """
        self.drop_staged()
        with contextlib.suppress(OSError):
            self._staged = self._stage(data, batches)
        return self._staged

    def _stage(self, data: memoryview, batches: Sequence[StagedBatch]) -> Staged:
        return Staged(self, data, batches)

    def drop(self, staged: Staged) -> None:
        """Drop `staged`, unless it has been dropped already."""
        if self._staged is staged:
            self.drop_staged()

    def drop_staged(self) -> None:
        """Drop what is staged and cut the file to the log's end; waits for a writing thread."""
        staged, self._staged = self._staged, None
        if staged is not None:
            staged.end()

    def _takes_over(self, data: Bytes) -> bool:
        """Whether `data` is already written; if it is not, the staged batches are dropped."""
        assert self._staged is not None
        if self._staged.is_next(data):
            self.size_bytes += len(data)
            return True
        self.drop_staged()
        return False

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Read up to `size_bytes`, fewer at the end of the file.  Raises: LogDirFailed."""
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self.descriptor()
        try:
            return os.pread(descriptor, size_bytes, position)
        except OSError as error:
            fail(self.path, error)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer up to the end of the file; return the count.  Raises: LogDirFailed."""
        descriptor = self.descriptor()
        view = memoryview(buffer)
        filled = 0
        try:
            while filled < len(view):
                count = _read_into(descriptor, view[filled:], position + filled)
                if count == 0:
                    break
                filled += count
        except OSError as error:
            fail(self.path, error)
        return filled

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to its first `size_bytes`.  Raises: LogDirFailed."""
        descriptor = self.descriptor()
        self.drop_staged()
        with guarded(self.path):
            os.ftruncate(descriptor, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """fsync.  May run in any thread while the caller holds a reference.

        After a failure every later use of the file fails too: a second fsync would report as
        written the pages that the first one lost.  Raises: LogDirFailed.
        """
        descriptor = self.descriptor()
        try:
            self._files.fsync(descriptor)
        except OSError as error:
            self._descriptor = _FAILED
            with contextlib.suppress(OSError):
                os.close(descriptor)
            fail_sync(self.path, error)

    def fileno(self) -> int:
        """The descriptor, for sendfile; stable only while a reference is held."""
        return self.descriptor()

    def descriptor(self) -> int:
        """The descriptor, opened if necessary.  Raises: LogDirFailed."""
        self.recently_used = True
        if self._descriptor >= 0:
            return self._descriptor
        if self._descriptor == _FAILED:
            raise LogDirFailed(f"{self.path}: an earlier fsync failed", self.path)
        if self._closing:
            raise LogDirFailed(f"{self.path}: used after close", self.path)
        self._descriptor = self._files.open_descriptor(self)
        return self._descriptor

    def duplicate(self) -> int:
        """Another descriptor of the open file, for the caller to close.

        Raises: LogDirFailed, OSError (too many open descriptors).
        """
        return os.dup(self.descriptor())

    def ref(self) -> None:
        """Hold the descriptor open until `unref`.  Raises: LogDirFailed."""
        self.descriptor()
        self._references += 1

    def unref(self) -> None:
        """Release a reference; the last one of a closed file closes the descriptor."""
        assert self._references > 0
        self._references -= 1
        if self._closing and self._references == 0:
            self._close_descriptor()

    @property
    def referenced(self) -> bool:
        """Whether there are references to the descriptor."""
        return self._references > 0

    def rest(self) -> None:
        """Close the descriptor now, unless it is referenced; the next use reopens it."""
        if self._references == 0:
            self._close_descriptor()

    def close(self) -> None:
        """End the use of this file; the last reference closes the descriptor."""
        self.drop_staged()
        self._closing = True
        if self._references == 0:
            self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            self._files.forget(self)
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _read_vector(descriptor: int, view: memoryview, position: int) -> int:
    """Read once, up to the size of the view; return the count.  Raises: OSError."""
    return os.preadv(descriptor, [view], position)


def _read_and_copy(descriptor: int, view: memoryview, position: int) -> int:
    """The same where there is no preadv: on macOS before 11."""
    data = os.pread(descriptor, len(view), position)
    view[: len(data)] = data
    return len(data)


_read_into: Final = _read_vector if hasattr(os, "preadv") else _read_and_copy
