"""Which leader epoch wrote which offsets: (epoch, start offset) pairs, both strictly rising.

Followers use it to find where their log diverges from the leader's (KIP-101, KIP-279). The
checkpoint file is written at each change, without fsync; the flush that moves the recovery point
past the change syncs it. Recovery finds what a crash lost in the batch headers above the recovery
point.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

from ..errors import LogDirFailed
from ..files import FileSystem
from .checkpoint import LEADER_EPOCH, render_epochs

UNDEFINED: Final = -1


class LeaderEpochs:
    """The epochs of one partition and their checkpoint file."""

    __slots__ = ("_directory", "_epochs", "_files", "_start_offsets", "lags", "latest", "unsynced")

    def __init__(
        self, files: FileSystem, directory: str, entries: Iterable[tuple[int, int]] = ()
    ) -> None:
        self._files = files
        self._directory = directory
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        for epoch, start_offset in entries:
            self._epochs.append(epoch)
            self._start_offsets.append(start_offset)
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED
        self.lags = False
        """Whether the file still has entries from before the log start, or could not be written."""
        self.unsynced = False

    def moved_to(self, directory: str) -> None:
        """Note that the log's directory was renamed."""
        self._directory = directory

    @property
    def path(self) -> str:
        """The checkpoint file."""
        return f"{self._directory}/{LEADER_EPOCH}"

    def entries(self) -> list[tuple[int, int]]:
        """All (epoch, start offset) pairs, rising."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int, *, write: bool = True) -> None:
        """Add the entry that `epoch` begins at `start_offset`, and write the file.

        Entries with an epoch or start offset not below the new ones are removed. If the latest
        epoch is `epoch` and starts at or before `start_offset`, nothing changes.
        Raises: DiskFull, LogDirFailed.
        """
        if epoch < 0 or self._covers(epoch, start_offset):
            return
        while self._epochs and (
            self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset
        ):
            self._epochs.pop()
            self._start_offsets.pop()
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self.latest = epoch
        if write:
            self.write()

    def begin(self, epoch: int, start_offset: int) -> None:
        """As `assign`, for an epoch in which nothing has been written yet.

        Raises: DiskFull, LogDirFailed; the entries are then unchanged.
        """
        before = self._epochs.copy(), self._start_offsets.copy(), self.latest
        try:
            self.assign(epoch, start_offset)
        except LogDirFailed:
            self._epochs, self._start_offsets, self.latest = before
            raise

    def _covers(self, epoch: int, start_offset: int) -> bool:
        return bool(
            self._epochs and self._epochs[-1] == epoch and self._start_offsets[-1] <= start_offset
        )

    def write(self) -> None:
        """Write the checkpoint file, unsynced.  Raises: LogDirFailed."""
        self.lags = True
        self._files.write_atomic(self.path, render_epochs(self.entries()), sync=False)
        self.lags = False
        self.unsynced = True

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote `offset`, or -1."""
        index = bisect_right(self._start_offsets, offset) - 1
        return self._epochs[index] if index >= 0 else UNDEFINED

    def end_offset(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(largest epoch <= `epoch`, the offset after its last record); (-1, -1) if undefined.

        The latest epoch ends at the log end. An epoch above all known ones is undefined. For one
        below the first, the result is itself and the first start offset.  Source: KIP-101, KIP-279.
        """
        if epoch == UNDEFINED or not self._epochs or epoch > self._epochs[-1]:
            return UNDEFINED, UNDEFINED
        if epoch == self._epochs[-1]:
            return epoch, log_end_offset
        index = bisect_right(self._epochs, epoch)
        if index == 0:
            return epoch, self._start_offsets[0]
        return self._epochs[index - 1], self._start_offsets[index]

    def truncate_end(self, log_end_offset: int, *, write: bool = True) -> None:
        """Remove the epochs that begin at or after `log_end_offset`."""
        count = len(self._epochs)
        while self._start_offsets and self._start_offsets[-1] >= log_end_offset:
            self._epochs.pop()
            self._start_offsets.pop()
        self._changed(count, write=write)

    def truncate_start(self, log_start_offset: int, *, write: bool = True) -> None:
        """Remove the epochs that end before the log start; the first one left then begins there.

        Without `write` the file lags behind until the log start is safe on disk: if the log starts
        earlier after a crash, it needs the older epochs.
        """
        gone = bisect_right(self._start_offsets, log_start_offset) - 1
        if gone < 0 or self._start_offsets[gone] == log_start_offset == self._start_offsets[0]:
            return
        del self._epochs[:gone]
        del self._start_offsets[:gone]
        self._start_offsets[0] = log_start_offset
        self.lags = True
        if write:
            self.write()

    def _changed(self, count_before: int, *, write: bool) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED
        if write and len(self._epochs) != count_before:
            self.write()
