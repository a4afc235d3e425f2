"""A log file whose descriptor comes and goes.

A file with references (spans on their way to a socket, a running fsync) keeps its descriptor
until the last reference goes, also when it was unlinked or renamed meanwhile.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NoReturn

from .errors import DiskFull, LogDirFailed

if TYPE_CHECKING:
    from .files import RealFileSystem
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
    """Raise for a failed fsync, which is never a mere lack of space.  Raises: LogDirFailed."""
    raise LogDirFailed(f"{path}: fsync: {error.strerror or error}", path) from error


@contextlib.contextmanager
def guarded(path: str) -> Iterator[None]:
    """Turn an OSError of the block into the storage error."""
    try:
        yield
    except OSError as error:
        fail(path, error)


class LogFile:
    """A file that grows at its end and is read anywhere; its descriptor comes and goes.

    `size_bytes` is the number of bytes that belong to the log; what lies beyond it on disk after a
    failed write counts for nothing and is overwritten or cut by the next call.
    """

    __slots__ = (
        "_closing",
        "_descriptor",
        "_files",
        "_references",
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
        self.path = path
        self.size_bytes = size_bytes
        self.recently_used = False
        self.spans: set[Span] | None = None

    def append(self, data: Bytes) -> int:
        """Write at the end; return the position.  If it fails nothing has happened.

        Raises: DiskFull, LogDirFailed.
        """
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self.descriptor()
        position = self.size_bytes
        try:
            written = os.pwrite(descriptor, data, position)
            if written != len(data):
                self._write_rest(descriptor, data, position, written)
        except OSError as error:
            # What was written may be half a batch.  Should even the cut fail: writes go to a fixed
            # position, so the remains are outside the log, and recovery cuts them.
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, position)
            fail(self.path, error)
        self.size_bytes = position + len(data)
        return position

    def _write_rest(self, descriptor: int, data: Bytes, position: int, written: int) -> None:
        """Go on after a short write, so that the next call names the true error (ENOSPC)."""
        view = memoryview(data)
        while written < len(view):
            more = os.pwrite(descriptor, view[written:], position + written)
            if more <= 0:
                raise OSError(errno.ENOSPC, "write made no progress", self.path)
            written += more

    def pread(self, size_bytes: int, position: int) -> bytes:
        """Read up to `size_bytes`; fewer at the end of the file.  Raises: LogDirFailed."""
        descriptor = self._descriptor
        if descriptor < 0:
            descriptor = self.descriptor()
        try:
            return os.pread(descriptor, size_bytes, position)
        except OSError as error:
            fail(self.path, error)

    def pread_into(self, buffer: bytearray | memoryview, position: int) -> int:
        """Fill the buffer as far as the file goes; return the count.  Raises: LogDirFailed."""
        descriptor = self.descriptor()
        view = memoryview(buffer)
        filled = 0
        try:
            while filled < len(view):
                count = os.preadv(descriptor, [view[filled:]], position + filled)
                if count == 0:
                    break
                filled += count
        except OSError as error:
            fail(self.path, error)
        return filled

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to its first `size_bytes`.  Raises: LogDirFailed."""
        descriptor = self.descriptor()
        with guarded(self.path):
            os.ftruncate(descriptor, size_bytes)
        self.size_bytes = size_bytes

    def sync(self) -> None:
        """fsync.  May run in any thread while the caller holds a reference.

        After a failure every later use of the file fails too: a second fsync would report pages as
        written that the first one has lost.  Raises: LogDirFailed.
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
        """The open descriptor, opening it if need be.  Raises: LogDirFailed."""
        self.recently_used = True
        if self._descriptor >= 0:
            return self._descriptor
        if self._descriptor == _FAILED:
            raise LogDirFailed(f"{self.path}: an earlier fsync failed", self.path)
        if self._closing:
            raise LogDirFailed(f"{self.path}: used after close", self.path)
        self._descriptor = self._files.open_descriptor(self)
        return self._descriptor

    def ref(self) -> None:
        """Hold the descriptor open until `unref`.  Raises: LogDirFailed."""
        self.descriptor()
        self._references += 1

    def unref(self) -> None:
        """Give a reference back; the last one of a closed file closes the descriptor."""
        assert self._references > 0
        self._references -= 1
        if self._closing and self._references == 0:
            self._close_descriptor()

    @property
    def referenced(self) -> bool:
        """Whether somebody holds the descriptor."""
        return self._references > 0

    def rest(self) -> None:
        """Give the descriptor back now; the next use opens it again."""
        if self._references == 0:
            self._close_descriptor()

    def close(self) -> None:
        """End the use of this file; the descriptor goes with the last reference."""
        self._closing = True
        if self._references == 0:
            self._close_descriptor()

    def _close_descriptor(self) -> None:
        if self._descriptor >= 0:
            descriptor, self._descriptor = self._descriptor, _CLOSED
            self._files.forget(self)
            with contextlib.suppress(OSError):
                os.close(descriptor)
