"""Checks whether `leader-epoch-checkpoint` and the batches agree, and which of them is right."""

from bisect import bisect_right
from typing import Final, NamedTuple

from odradek.protocol.records import BatchHeader

from ..files import FileSystem
from ..log.checkpoint import LEADER_EPOCH, parse_epochs
from .check_segment import SegmentReport
from .context import Context
from .findings import Finding, Grade, Report

_MISFITS_KEPT: Final = 1000


class _Misfit(NamedTuple):
    segment: SegmentReport
    position: int
    offset: int
    epoch: int
    expected: int


class EpochCheck:
    """Compares the file with the batches: call `note` for each batch, then `finish`.

    `rebuilt` has the epochs by the batches; `is_bad` says whether to write them to the file.
    """

    def __init__(self, files: FileSystem, directory: str) -> None:
        self.path = f"{directory}/{LEADER_EPOCH}"
        self.rebuilt: list[tuple[int, int]] = []
        self.is_bad = False
        self.problem: str | None = None
        self.entries: list[tuple[int, int]] = []
        data = files.read_bytes(self.path)
        if data is None:
            self.problem = "the file is missing"
        else:
            try:
                self.entries = parse_epochs(data) if data else []
            except ValueError as error:
                self.problem = f"the file cannot be read: {error}"
        self._starts = [start for _, start in self.entries]
        self._misfits: list[_Misfit] = []
        self._misfit_count = self._fit_count = 0

    def note(self, segment: SegmentReport, position: int, header: BatchHeader) -> None:
        """Process the next good batch."""
        epoch, offset = header.partition_leader_epoch, header.base_offset
        if epoch < 0 and not self.entries:
            return
        if epoch >= 0 and (not self.rebuilt or epoch > self.rebuilt[-1][0]):
            # Batches before the first one were removed by compaction or retention.
            self.rebuilt.append((epoch, offset if self.rebuilt else segment.base_offset))
        index = bisect_right(self._starts, offset) - 1
        expected = self.entries[index][0] if index >= 0 else None
        if expected is None and self.entries:
            return  # below the log start, where the file has no entries
        if expected == epoch:
            self._fit_count += 1
            return
        self._misfit_count += 1
        if len(self._misfits) < _MISFITS_KEPT:
            expected = -1 if expected is None else expected
            self._misfits.append(_Misfit(segment, position, offset, epoch, expected))

    def finish(self, context: Context, log_end_offset: int, report: Report) -> None:
        """Report the contradictions, and decide whether the file or the batches are wrong."""
        doubtful = not context.clean
        if self.problem is not None:
            if self.rebuilt or self.problem != "the file is missing":
                self._bad_file(self.problem, report, doubtful=doubtful)
            return
        if not self._misfit_count:
            start = max(self.rebuilt[0][1], context.log_start_offset or 0) if self.rebuilt else 0
            if self.rebuilt and self._starts and self._starts[0] > start:
                what = f"the first epoch begins at {self._starts[0]}, past the log's start {start}"
                self._bad_file(what, report, doubtful=False)
                return
            late = [start for start in self._starts if start > log_end_offset]
            if late:
                what = f"an epoch begins at {late[0]}, past the end of the log at {log_end_offset}"
                self._bad_file(what, report, doubtful=doubtful)
            return
        first = self._misfits[0]
        newest = self.entries[-1][0] if self.entries else -1
        is_newer = doubtful and first.offset >= context.recovery_point and first.epoch > newest
        if self._batches_are_wrong(is_newer=is_newer):
            for misfit in self._misfits:
                misfit.segment.epoch_fixes[misfit.position] = misfit.expected
                what = f"leader epoch {misfit.epoch} in a batch of epoch {misfit.expected}"
                report(
                    Finding(
                        misfit.segment.path(),
                        what,
                        Grade.REPAIRABLE,
                        misfit.position,
                        misfit.offset,
                    )
                )
            return
        what = f"offset {first.offset} is of epoch {first.epoch}, by the file of {first.expected}"
        self._bad_file(what, report, doubtful=is_newer)

    def _batches_are_wrong(self, *, is_newer: bool) -> bool:
        """Whether flipped bits in batches explain the contradictions, and not a wrong file.

        A wrong file contradicts a run of batches with the same epoch; a flipped bit makes an epoch
        that only one batch has.  `is_newer`: an unclean shutdown may have lost the file's entry.
        """
        epochs = [misfit.epoch for misfit in self._misfits]
        known = {epoch for epoch, _ in self.entries}
        once = len(set(epochs)) == len(epochs) == self._misfit_count
        return once and known.isdisjoint(epochs) and self._fit_count > 0 and not is_newer

    def _bad_file(self, what: str, report: Report, *, doubtful: bool) -> None:
        self.is_bad = not doubtful
        grade = Grade.UNCLEAN if doubtful else Grade.REPAIRABLE
        report(Finding(self.path, what, grade))
