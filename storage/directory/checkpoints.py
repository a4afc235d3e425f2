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
    """What the last run left; None: missing or unreadable."""

    recovery_point: dict[TopicPartition, int] | None
    high_watermark: dict[TopicPartition, int] | None
    log_start: dict[TopicPartition, int] | None
    cleaner: dict[TopicPartition, int] | None

    @classmethod
    def read(cls, files: FileSystem, directory: str) -> Self:
        """All of a data directory.  Raises: LogDirFailed."""
        names = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER)
        return cls(*(read_offsets(files, f"{directory}/{name}") for name in names))

    def keys(self) -> set[TopicPartition]:
        """The partitions of which they say something."""
        return {key for offsets in self if offsets for key in offsets}

    def hints(self, key: TopicPartition, *, marker: bool, is_copy: bool = False) -> LoadHints:
        """What they say of one partition; `marker`: the last stop was clean.

        `is_copy`: of a replica that is being moved here; what it lacks is not lost.
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
    """Write down where these logs stand now, and of those that are not served what was known."""
    recovery_points = {key: hints.recovery_point for key, hints in unserved.items()}
    recovery_points |= {key: log.recovery_point for key, log in logs.items()}
    log_starts = {
        key: log.log_start_offset
        for key, log in logs.items()
        if log.log_start_offset > log.segments.first_offset
        or log.flushing.start_unsynced
        # Nothing is synced from there on: should segments be lost, it is seen that they are.
        or log.recovery_point <= log.log_start_offset > 0
    }
    kept_starts = {key: hints.log_start_offset for key, hints in unserved.items()}
    contents = {
        # First: retention lets the recovery point rise to a log start, and what lies before that
        # need not be safe.
        LOG_START: log_starts | {key: offset for key, offset in kept_starts.items() if offset},
        RECOVERY_POINT: recovery_points,
        HIGH_WATERMARK: {key: log.high_watermark for key, log in logs.items()}
        | {key: hints.high_watermark for key, hints in unserved.items()},
        # Also if it is empty: a new topic must not inherit what was compacted of an old one.
        CLEANER: {
            key: log.cleaner_offset for key, log in logs.items() if log.cleaner_offset is not None
        },
    }
    rendered = [(f"{directory}/{name}", render_offsets(o)) for name, o in contents.items()]
    starts = {log: log.log_start_offset for log in logs.values()}
    return CheckpointPlan(files, rendered, recovery_points, starts)
