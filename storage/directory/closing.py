"""The clean shutdown of one data directory, in steps whose fsyncs can run in several threads.

If tens of thousands of small files are synced one after the other, each waits for a commit of the
file system's journal; if several are synced at once, they share the commits.
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

LOGS_AT_ONCE: Final = 256  # each holds descriptors until its plan has run


def close_steps(data_dir: "DataDir", files: FileSystem) -> Generator[list[FlushPlan]]:
    """Flush and close every log, write the checkpoints, then the marker; unlock.

    The caller must run all plans of a list, in any threads, before it takes the next list. After
    any failure, including that of a plan, it must close the iterator: the marker is then not
    written.  Raises: DiskFull, LogDirFailed.
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
