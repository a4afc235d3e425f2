"""Scrubbing: reads finished segments again periodically, and verifies their checksums.

A disk may corrupt data that is stored for years. Each partition is read once per
`odradek.scrub.interval.ms`, no faster than `odradek.scrub.max.bytes.per.second`, by jobs of about
JOB_S seconds (a large segment takes longer). A corrupt batch is logged and counted, and answered
CORRUPT_MESSAGE from then on (a consumer may seek past it). Apache Kafka sends such a batch, and its
clients find the corruption.
Progress and damage are stored in a file in each data directory.
"""

import asyncio
import itertools
import logging
from typing import Any, Final, NamedTuple

from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.files import FileSystem
from odradek.storage.log.damage import DamagedRange
from odradek.storage.log.log import Log
from odradek.storage.log.segment import Segment

from ..config import Config
from ..metrics.counters import BATCHES_CORRUPT, SEGMENTS_SCRUBBED, SEGMENTS_UNREADABLE
from ..partitions.replicas import Replicas
from ..runtime import Runtime
from ..tasks import to_the_end
from .scrub_state import RUBBISH, STATE_FILE, Pass, State, decode, encode

logger = logging.getLogger(__name__)

CHECK_MS: Final = 10_000
JOB_S: Final = 30
SEGMENTS_PER_JOB_MAX: Final = 256
LOOKED_AT_ONCE: Final = 256


class _Due(NamedTuple):
    """One segment to verify."""

    log: Log
    segment: Segment
    offset_end: int


class Scrubber:
    """Scrubs one broker's logs."""

    def __init__(self, replicas: Replicas, config: Config, runtime: Runtime) -> None:
        self._replicas = replicas
        self._config = config
        self._runtime = runtime
        self._states: dict[DataDir, State] = {}

    async def run(self) -> None:
        """Restore the stored state, then scrub forever."""
        for data_dir in self._replicas.log_dirs.online:
            self.restore(data_dir)
        for log in self._replicas.log_dirs.all_logs():
            if any(segment.damaged for segment in log.segments):
                self._replicas.damaged.want(log)
        while True:
            await asyncio.sleep(CHECK_MS / 1000)
            for data_dir in list(self._replicas.log_dirs.online):
                await self.forget_what_is_gone(data_dir)
            if self._config.odradek_scrub_interval_ms < 0:
                continue
            for data_dir in list(self._replicas.log_dirs.online):
                while await self.scrub_some(data_dir):
                    pass

    async def run_reported(self) -> None:
        """Verify reported records, forever."""
        while True:
            log, offset = await self._replicas.damage_reports.next()
            await self.verify(log, offset)

    async def verify(self, log: Log, offset: int) -> None:
        """Verify the segment with an offset, and the next, since compaction leaves gaps."""
        data_dir, generation = self._replicas.log_dirs.of(log.directory), log.generation
        due = [
            _Due(log, segment, log.segments.next_base_offset(segment) or log.log_end_offset)
            for segment in itertools.islice(log.segments.from_offset(offset), 2)
        ]
        result = await self._ask_job(due, rate=None, with_epochs=True) if due else []
        is_same = data_dir is not None and data_dir.logs.get((log.topic, log.partition)) is log
        if data_dir is None or not is_same or log.generation != generation:
            self._replicas.damage_reports.verified(log, offset, is_sound=False)  # it has changed
            return
        for found, said in zip(due, result, strict=False):
            self._take(self._state(data_dir), found, said)
        is_sound = bool(result) and not any(found.segment.damaged for found in due)
        self._replicas.damage_reports.verified(log, offset, is_sound=is_sound)
        if not is_sound:
            await self._save(data_dir)

    async def scrub_some(self, data_dir: DataDir) -> int:
        """Verify as many of the due segments as fit in one job; return how many."""
        due = await self._find_due(data_dir)
        if not due:
            return 0
        result = await self._ask_job(due, rate=self._config.odradek_scrub_max_bytes_per_second)
        if not result:
            return 0  # tried again at the next check
        state = self._state(data_dir)
        for found, said in zip(due, result, strict=True):
            if data_dir.logs.get((found.log.topic, found.log.partition)) is found.log:
                self._note_progress(state, found)
                self._take(state, found, said)
        await self._save(data_dir)
        return len(due)

    async def _ask_job(
        self, due: list[_Due], *, rate: int | None, with_epochs: bool = False
    ) -> list[dict[str, Any]]:
        """Run a job; return its result for each segment, or nothing if it failed."""
        arguments = {
            "segments": [
                {
                    "path": segment.file.path,
                    "size_bytes": segment.size_bytes,
                    "base_offset": segment.base_offset,
                    "offset_end": offset_end,
                    **({"epochs": log.epochs.entries()} if with_epochs else {}),
                }
                for log, segment, offset_end in due
            ],
            "io_bytes_per_second": rate,
        }
        try:
            result = await self._runtime.jobs("scrub", arguments)
        except StorageError as error:
            logger.warning("scrub failed error=%s", error)
            return []
        said: list[dict[str, Any]] = result["segments"]
        return said

    # -- finding due segments

    async def _find_due(self, data_dir: DataDir) -> list[_Due]:
        now_ms = self._runtime.clock.wall_ms()
        state = self._state(data_dir)
        bytes_left = self._config.odradek_scrub_max_bytes_per_second * JOB_S
        due: list[_Due] = []
        for count, (key, log) in enumerate(list(data_dir.logs.items())):
            if count % LOOKED_AT_ONCE == LOOKED_AT_ONCE - 1:
                await asyncio.sleep(0)
            current = state.passes.get(key)
            if current is None or self._is_over(current, now_ms):
                current = state.passes[key] = Pass(now_ms)
            if current.is_done or data_dir.logs.get(key) is not log:
                continue
            for found in _finished(log, current.next_offset):
                if due and (bytes_left <= 0 or len(due) >= SEGMENTS_PER_JOB_MAX):
                    return due
                due.append(found)
                bytes_left -= found.segment.size_bytes
            if not due or due[-1].log is not log:
                current.is_done = True
        return due

    def _is_over(self, current: Pass, now_ms: int) -> bool:
        """Whether the next pass may begin; a clock that was set back must not delay it forever."""
        interval_ms = self._config.odradek_scrub_interval_ms
        return current.is_done and not 0 <= now_ms - current.begun_ms < interval_ms

    # -- handling results

    def _note_progress(self, state: State, found: _Due) -> None:
        log = found.log
        current = state.passes.get((log.topic, log.partition))
        if current is not None and any(other is found.segment for other in log.segments):
            current.next_offset = max(current.next_offset, found.offset_end)

    def _take(self, state: State, found: _Due, said: dict[str, Any]) -> None:
        log, segment = found.log, found.segment
        if all(other is not segment for other in log.segments):
            return  # deleted, compacted or truncated meanwhile
        counters = self._replicas.counters
        if "error" in said:
            counters.add(SEGMENTS_UNREADABLE)
            logger.error(
                "segment could not be verified path=%s error=%s", segment.file.path, said["error"]
            )
            return
        counters.add(SEGMENTS_SCRUBBED)
        damaged = tuple(DamagedRange(*fields) for fields in said["damaged"])
        key = log.topic, log.partition, segment.base_offset
        if damaged:
            state.damaged[key] = segment.size_bytes, damaged
        else:
            state.damaged.pop(key, None)
        if damaged != segment.damaged:
            counters.add(BATCHES_CORRUPT, len(set(damaged) - set(segment.damaged)))
            segment.note_damage(damaged)
        if damaged:
            self._replicas.damaged.want(log)

    # -- stored state

    def _state(self, data_dir: DataDir) -> State:
        return self._states.setdefault(data_dir, State())

    def restore(self, data_dir: DataDir) -> None:
        """Restore the state of the last run; an unreadable file counts as missing."""
        path = f"{data_dir.path}/{STATE_FILE}"
        try:
            data = self._runtime.files.read_bytes(path)
            state = decode(data) if data else State()
        except (LogDirFailed, *RUBBISH) as error:
            logger.warning("scrub state unreadable, starting again path=%s error=%s", path, error)
            state = State()
        self._states[data_dir] = state
        for (topic, partition, base_offset), (size_bytes, damaged) in state.damaged.items():
            log = data_dir.logs.get((topic, partition))
            for segment in log.segments if log is not None else ():
                if segment.base_offset == base_offset and segment.size_bytes == size_bytes:
                    segment.note_damage(damaged)

    async def forget_what_is_gone(self, data_dir: DataDir) -> None:
        """Drop state of segments and logs that are gone: a new copy may have the same segments."""
        state = self._state(data_dir)
        if any(not _is_left(data_dir, key, ranges) for key, (_, ranges) in state.damaged.items()):
            await self._save(data_dir)
        else:
            _forget_passes(state, data_dir)

    async def _save(self, data_dir: DataDir) -> None:
        state = self._state(data_dir)
        _forget_passes(state, data_dir)
        state.damaged = {k: v for k, v in state.damaged.items() if _is_left(data_dir, k, v[1])}
        path, files = f"{data_dir.path}/{STATE_FILE}", self._runtime.files
        try:
            await to_the_end(self._runtime.offload(_write, files, path, encode(state)))
        except LogDirFailed as error:
            self._replicas.take_offline(error)


def _forget_passes(state: State, data_dir: DataDir) -> None:
    """Drop the progress of logs that are gone."""
    for key in state.passes.keys() - data_dir.logs.keys():
        del state.passes[key]


def _is_left(
    data_dir: DataDir, key: tuple[str, int, int], ranges: tuple[DamagedRange, ...]
) -> bool:
    """Whether the segment still exists with the same damage."""
    topic, partition, base_offset = key
    log = data_dir.logs.get((topic, partition))
    return log is not None and any(
        segment.base_offset == base_offset and segment.damaged == ranges for segment in log.segments
    )


def _finished(log: Log, offset_first: int) -> list[_Due]:
    """The finished segments from an offset on that are below the recovery point."""
    due = []
    for segment in log.segments.from_offset(offset_first):
        offset_end = log.segments.next_base_offset(segment)
        if offset_end is None or offset_end > log.recovery_point:
            break
        if segment.base_offset >= offset_first or offset_end > offset_first:
            due.append(_Due(log, segment, offset_end))
    return due


def _write(files: FileSystem, path: str, data: bytes) -> None:
    files.write_atomic(path, data, sync=False)  # whatever a crash loses is verified again
