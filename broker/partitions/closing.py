"""The clean stop of the log directories: storage plans what to sync, threads do it in parallel."""

import asyncio
from contextlib import closing

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.log_dirs import LogDirs
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.plans import FlushPlan

from ..runtime import OFFLOAD_THREADS_MAX, Offload
from ..tasks import to_the_end


async def close_log_dirs(log_dirs: LogDirs, offload: Offload) -> None:
    """Close all online directories like `DataDir.close`; if one fails, the others are still closed.

    Raises: DiskFull, LogDirFailed.
    """
    failure = None
    for data_dir in log_dirs.online:
        try:
            await to_the_end(_close(data_dir, offload))
        except LogDirFailed as error:
            failure = failure or error
    if failure is not None:
        raise failure


async def _close(data_dir: DataDir, offload: Offload) -> None:
    with closing(data_dir.closing()) as steps:
        while plans := await offload(next, steps, None):
            shares = [plans[first::OFFLOAD_THREADS_MAX] for first in range(OFFLOAD_THREADS_MAX)]
            ended = await asyncio.gather(
                *(offload(_run_all, share) for share in shares if share), return_exceptions=True
            )
            for error in ended:
                if error is not None:
                    raise error


def _run_all(plans: list[FlushPlan]) -> None:
    for plan in plans:
        plan.run()
