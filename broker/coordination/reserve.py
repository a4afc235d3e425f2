"""Room on a disk that is kept for when there is no other.

A full disk must not end the broker: what its owner does then is to delete a topic, and that is a
commit of the store, which needs some pages.
"""

import contextlib
import os
from typing import Final

RESERVE_BYTES: Final = 1 << 20


class Reserve:
    """A file that does nothing but take room, until it is given up."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_kept = False

    def keep(self) -> None:
        """See that there is a reserve, if there is room for it."""
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
        """Make room; False if there is no reserve."""
        kept, self._is_kept = self._is_kept, False
        with contextlib.suppress(OSError):
            os.unlink(self._path)
        return kept
