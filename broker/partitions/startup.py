"""Recovery after an unclean stop in separate processes, if much must be scanned.

Partitions with long unflushed tails are recovered and closed by jobs, a few at a time for each data
directory (`num.recovery.threads.per.data.dir`), and then loaded as after a clean stop. Short tails
are recovered during loading itself, as that is quicker than starting a process. So is everything
that a failed job has not done.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from typing import Final

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.directory.found_partition import FoundPartition
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.log.load_report import report_from_json
from odradek.storage.log.log_config import LogConfig
from odradek.storage.recovery.load import LoadHints
from odradek.storage.recovery.scan_estimate import bytes_to_scan

from ..runtime import Runtime

logger = logging.getLogger(__name__)

WORTH_BYTES: Final = 64 << 20  # a smaller total is scanned before a process has started
JOB_BYTES: Final = 64 << 20  # small partitions are grouped into jobs of up to this size
PARTITION_BYTES_MIN: Final = 1 << 20
PROGRESS_S: Final = 5.0

Advance = Callable[[int], None]
ProgressBar = Callable[[int], AbstractContextManager[Advance]]
"""Created with the total number of bytes; its value is called with the size of each step."""


def no_bar(total_bytes: int) -> AbstractContextManager[Advance]:
    """A progress bar that shows nothing."""
    return nullcontext(lambda step: None)


class _Part:
    """The partitions of one directory that one job recovers."""

    def __init__(self, data_dir: DataDir) -> None:
        self.data_dir = data_dir
        self.partitions: list[FoundPartition] = []
        self.size_bytes = 0
        self.done_bytes = 0


class Recovery:
    """One recovery and its progress."""

    def __init__(
        self, config_of: Callable[[str], LogConfig], runtime: Runtime, *, jobs_max: int
    ) -> None:
        """`jobs_max`: the number of processes that work on one data directory at a time."""
        self._config_of = config_of
        self._runtime = runtime
        self._jobs_max = jobs_max
        self._parts: list[_Part] = []
        self._finished_partitions = 0

    async def run(self, data_dirs: Sequence[DataDir], bar: ProgressBar = no_bar) -> None:
        """Recover the partitions that are worth a process; `DataDir.load` does the rest."""
        for data_dir in data_dirs:
            self._parts += self._parts_of(data_dir)
        total_bytes = sum(part.size_bytes for part in self._parts)
        if total_bytes < WORTH_BYTES:
            return
        logger.info("recovery begins partitions=%d bytes=%d", self._partition_count(), total_bytes)
        with bar(total_bytes) as advance:
            reporter = asyncio.ensure_future(self._report(total_bytes))
            try:
                await asyncio.gather(
                    *(
                        self._work(queue, advance)
                        for queue in self._queues(data_dirs)
                        for _ in range(self._jobs_max)
                    )
                )
            finally:
                reporter.cancel()

    def _parts_of(self, data_dir: DataDir) -> list[_Part]:
        try:
            found = data_dir.begin_loading()
        except LogDirFailed:
            return []  # loading fails again, and reports it
        parts: list[_Part] = []
        for partition in found:
            if partition.hints.clean:
                continue
            recovery_point = partition.hints.recovery_point
            size_bytes = bytes_to_scan(self._runtime.files, partition.directory, recovery_point)
            if size_bytes < PARTITION_BYTES_MIN:
                continue
            if not parts or parts[-1].size_bytes + size_bytes > JOB_BYTES:
                parts.append(_Part(data_dir))
            parts[-1].partitions.append(partition)
            parts[-1].size_bytes += size_bytes
        return sorted(parts, key=lambda part: -part.size_bytes)  # the longest ones first

    def _queues(self, data_dirs: Sequence[DataDir]) -> list[deque[_Part]]:
        return [deque(p for p in self._parts if p.data_dir is data_dir) for data_dir in data_dirs]

    def _partition_count(self) -> int:
        return sum(len(part.partitions) for part in self._parts)

    async def _work(self, queue: deque[_Part], advance: Advance) -> None:
        while queue:
            part = queue.popleft()
            try:
                await self._recover(part, advance)
            except StorageError as error:
                logger.warning(
                    "recovery in a process failed, repeated in the broker partitions=%d error=%s",
                    len(part.partitions),
                    error,
                )
            self._finished_partitions += len(part.partitions)

    async def _recover(self, part: _Part, advance: Advance) -> None:
        def on_progress(done_bytes: int) -> None:
            advance(done_bytes - part.done_bytes)
            part.done_bytes = done_bytes

        arguments = {
            "wall_ms": self._runtime.clock.wall_ms(),
            "partitions": [
                {
                    "directory": found.directory,
                    "topic": found.topic,
                    "partition": found.partition,
                    "recovery_point": found.hints.recovery_point,
                    "log_start_offset": found.hints.log_start_offset,
                    "high_watermark": found.hints.high_watermark,
                    "config": asdict(self._config_of(found.topic)),
                }
                for found in part.partitions
            ],
        }
        result = await self._runtime.jobs("recover", arguments, on_progress)
        for level, message in result["warnings"]:
            logging.getLogger("odradek.storage").log(level, "%s", message)
        for found, said in zip(part.partitions, result["partitions"], strict=True):
            if "error" in said:
                logger.warning("not recovered path=%s reason=%s", found.directory, said["error"])
                continue
            hints = LoadHints(
                clean=True,
                recovery_point=said["log_end_offset"],
                log_start_offset=said["log_start_offset"],
                high_watermark=said["high_watermark"],
            )
            report = report_from_json(said["report"])
            part.data_dir.recovered[found.directory] = hints, report

    async def _report(self, total_bytes: int) -> None:
        """Log the progress every few seconds."""
        clock = self._runtime.clock
        begun_ms = clock.now_ms()
        while True:
            await asyncio.sleep(PROGRESS_S)
            done_bytes = sum(part.done_bytes for part in self._parts)
            rate = max(1, done_bytes * 1000 // max(1, clock.now_ms() - begun_ms))
            logger.info(
                "recovery progress bytes=%d of=%d partitions=%d of=%d bytes_per_second=%d "
                "remaining_s=%d",
                done_bytes,
                total_bytes,
                self._finished_partitions,
                self._partition_count(),
                rate,
                max(0, total_bytes - done_bytes) // rate,
            )
