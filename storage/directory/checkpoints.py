"""The four offset checkpoints of one data directory, read and written together."""

from collections.abc import Mapping
from typing import NamedTuple, Self

from ..files import FileSystem
from ..log.checkpoint import (
    CLEANER,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    TopicPartition,
    read_offsets,
    render_offsets,
)
from ..log.log import Log
from ..log.plans import CheckpointPlan
from ..recovery.load import LoadHints


class Checkpoints(NamedTuple):
    """The checkpoints that the last run wrote; None: missing or unreadable."""

    recovery_point: dict[TopicPartition, int] | None
    high_watermark: dict[TopicPartition, int] | None
    log_start: dict[TopicPartition, int] | None
    cleaner: dict[TopicPartition, int] | None

    @classmethod
    def read(cls, files: FileSystem, directory: str) -> Self:
        """Read the checkpoints of a data directory.  Raises: LogDirFailed."""
        names = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
        return cls(*(read_offsets(files, f"{directory}/{name}") for name in names))

    def keys(self) -> set[TopicPartition]:
        """The partitions named in any of the checkpoints."""
        return {key for offsets in self if offsets for key in offsets}

    def hints(self, key: TopicPartition, *, marker: bool, is_copy: bool = False) -> LoadHints:
        """What the checkpoints say about one partition; `marker`: the last shutdown was clean.

        `is_copy`: the partition is the target of a move; what it lacks is not lost.
        """
        recovery_point = self.recovery_point or {}
        complete = None not in (self.recovery_point, self.high_watermark, self.log_start)
        return LoadHints(
            clean=marker and complete and key in recovery_point,
            recovery_point=recovery_point.get(key, 0),
            log_start_offset=(self.log_start or {}).get(key, 0),
            high_watermark=0 if is_copy else (self.high_watermark or {}).get(key, 0),
            is_copy=is_copy,
        )


def checkpoint_plan(
    files: FileSystem,
    directory: str,
    logs: Mapping[TopicPartition, Log],
    unserved: Mapping[TopicPartition, LoadHints],
) -> CheckpointPlan:
    """Checkpoints with the current offsets of `logs` and the last known ones of `unserved`."""
    recovery_points = {key: hints.recovery_point for key, hints in unserved.items()}
    recovery_points |= {key: log.recovery_point for key, log in logs.items()}
    log_starts = {
        key: log.log_start_offset
        for key, log in logs.items()
        if log.log_start_offset > log.segments.first_offset
        or log.flushing.start_unsynced
        # Nothing from the log start on is synced: if segments are lost, recovery must notice.
        or log.recovery_point <= log.log_start_offset > 0
    }
    kept_starts = {key: hints.log_start_offset for key, hints in unserved.items()}
    contents = {
        # Written first: retention may raise the recovery point to a log start, and nothing before
        # that log start needs to be safe.
        LOG_START: log_starts | {key: offset for key, offset in kept_starts.items() if offset},
        RECOVERY_POINT: recovery_points,
        HIGH_WATERMARK: {key: log.high_watermark for key, log in logs.items()}
        | {key: hints.high_watermark for key, hints in unserved.items()},
        # Written even if empty: a new topic must not inherit the cleaner offset of an old one.
        CLEANER: {
            key: log.cleaner_offset for key, log in logs.items() if log.cleaner_offset is not None
        },
    }
    rendered = [(f"{directory}/{name}", render_offsets(o)) for name, o in contents.items()]
    starts = {log: log.log_start_offset for log in logs.values()}
    return CheckpointPlan(files, rendered, recovery_points, starts)
