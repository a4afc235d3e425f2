"""The clean stop of one data directory, cut up so that its fsyncs can be shared out.

Tens of thousands of small files, synced one after the other, each wait for the disk's journal;
synced a few at a time they share its commits.
"""

from collections.abc import Generator
from itertools import islice
from typing import TYPE_CHECKING, Final

from ..files import FileSystem
from ..log.checkpoint import CLEAN_SHUTDOWN, CLEAN_SHUTDOWN_TEXT
from ..log.log import Log
from ..log.plans import FlushPlan

if TYPE_CHECKING:
    from .data_dir import DataDir

LOGS_AT_ONCE: Final = 256  # each holds a descriptor until its plan has run


def close_steps(data_dir: "DataDir", files: FileSystem) -> Generator[list[FlushPlan]]:
    """Flush and close every log, write checkpoints and last the marker, unlock.

    All of a list must have been run, in any threads, when the next one is asked for. A failure, of
    a plan too, is to be answered by closing the iterator: then there is no marker.
    Raises: DiskFull, LogDirFailed.
    """
    try:
        files.sync_path(data_dir.path)
        logs = data_dir.all_logs()
        while some := list(islice(logs, LOGS_AT_ONCE)):
            yield from _close_logs(some)
        data_dir.checkpoint()
        data_dir.suspicion.write()
        if data_dir.is_loaded:
            files.write_atomic(f"{data_dir.path}/{CLEAN_SHUTDOWN}", CLEAN_SHUTDOWN_TEXT)
    finally:
        data_dir.abandon()


def _close_logs(logs: list[Log]) -> Generator[list[FlushPlan]]:
    plans: list[tuple[Log, FlushPlan]] = []
    try:
        for log in logs:
            log.flushing.name_is_safe()
            plan = log.flushing.final_plan(log)
            if plan is not None:
                plans.append((log, plan))
        if plans:
            yield [plan for _, plan in plans]
        for log, plan in plans:
            log.flushed(plan)
        for log in logs:
            log.abandon()
    finally:
        for _, plan in plans:
            plan.release()
