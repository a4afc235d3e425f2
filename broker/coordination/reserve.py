"""Disk space that the store reserves for the case of a full disk.

A full disk must not stop the broker: the remedy is to delete a topic, which is a commit of the
store and needs a few pages.
"""

import contextlib
import os
from typing import Final

RESERVE_BYTES: Final = 1 << 20


class Reserve:
    """A file that occupies space until it is given up."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_kept = False

    def keep(self) -> None:
        """Create the reserve unless it exists; without enough space there is none."""
        if self._is_kept:
            return
        try:
            with open(self._path, "ab") as file:
                if file.tell() < RESERVE_BYTES:
                    file.write(bytes(RESERVE_BYTES - file.tell()))
            self._is_kept = True
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def give_up(self) -> bool:
        """Free the space; False if there was no reserve."""
        kept, self._is_kept = self._is_kept, False
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        return kept
