"""The temporary directory of a fixture's brokers.

It is removed when the brokers are closed, at the latest when the process ends. A process that is
killed can't do that, so whoever makes such a directory next also removes those without an owner:
an owner holds a lock on a file in its directory, which the system releases when the process ends.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final

PREFIX: Final = "odradek-"
OWNER: Final = "owner.lock"


class Scratch:
    """A temporary directory, until `close` or the end of this process."""

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True)
        self.path = Path(self._directory.name)
        self._owner = _own(self.path)
        remove_ownerless(self.path.parent)

    def close(self) -> None:
        """Remove it.  Idempotent."""
        self._directory.cleanup()
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None


def write_for_owner(path: Path, text: str) -> None:
    """Write a file that only this user can read.  Raises: OSError."""
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")


def remove_ownerless(parent: Path) -> None:
    """Remove the directories that killed processes of this user have left behind."""
    for directory in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # another process removes it just now, or it is not ours
            lock = os.open(directory / OWNER, os.O_RDWR)
            try:
                if os.fstat(lock).st_uid == os.getuid() and _take(lock):
                    shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(lock)


def _own(directory: Path) -> int | None:
    """Hold the lock on a directory; None where the system has no such locks."""
    fresh = directory / f"{OWNER}.new"
    lock = os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600)
    if not _take(lock):
        os.close(lock)
        return None
    fresh.rename(directory / OWNER)  # only now can others see it
    return lock


def _take(lock: int) -> bool:
    """Whether this process has the lock now."""
    try:
        import fcntl
    except ImportError:  # Windows: it is never taken, so nothing is ever removed
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
