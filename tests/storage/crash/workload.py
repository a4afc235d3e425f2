"""A random life of a data directory, with a mark wherever what is promised changes."""

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from unittest import mock

from odradek.protocol.records import iter_batches, read_header, set_offset_and_epoch
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.files import FileSystem
from odradek.storage.log import following
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.staging import Staged
from odradek.storage.upkeep.retention import (
    expire,
    knows_producers_from,
    remove_plan,
    removed,
    start_plan,
)
from tests.storage.support import WALL_MS, batch_of

from .disk import RecordingFiles

CONFIG: Final = LogConfig(segment_bytes=900, index_interval_bytes=100)
KEYS: Final = (("t", 0), ("u", 3))
DAY_MS: Final = 86_400_000
Key = tuple[str, int]


TOPIC_ID: Final = bytes(range(16))


@dataclass(frozen=True, slots=True)
class Promise:
    """What must be there after a crash: a log that knows whose it is, and that begins at `start`
    or before, with the batches in [start, end), by base offset."""

    start: int
    end: int
    batches: Mapping[int, bytes]


Promises = dict[Key, Promise]


def open_directory(path: Path, files: FileSystem) -> DataDir:
    """Start as a broker does."""
    return DataDir.open(
        str(path), 1, "cluster", files, config_of=lambda topic: CONFIG, wall_ms=WALL_MS
    )


class Life:
    """One data directory and who works on it."""

    def __init__(self, path: Path, seed: int) -> None:
        self.path = path
        self.files = RecordingFiles(path)
        self.ever: dict[Key, dict[int, set[bytes]]] = {key: {} for key in KEYS}
        """All batches that were ever appended, by base offset."""
        self._chance = random.Random(seed)
        self._promises: Promises = {}
        self._appended: dict[Key, dict[int, bytes]] = {key: {} for key in KEYS}
        self._epoch = 0
        self._sequence = 0
        self._staged: tuple[Key, Log, Staged] | None = None
        self._directory = open_directory(path, self.files)
        for topic, partition in KEYS:
            plan = self._directory.create_plan(
                topic, partition, topic_id=TOPIC_ID, config=CONFIG, epoch=0
            )
            plan.run()
            self._directory.created(plan)
            self._promise((topic, partition))

    def run(self, steps: int) -> None:
        """Live."""
        doings = [
            *[self._append] * 8,
            *[self._append_and_flush] * 8,
            *[self._stage] * 3,
            *[self._append_staged] * 3,
            self._checkpoint,
            self._checkpoint,
            self._move_start,
            self._retain,
            self._retain,
            self._truncate,
            self._begin_epoch,
            self._restart,
            self._die,
        ]
        for _ in range(steps):
            self._chance.choice(doings)()

    def _log(self) -> tuple[Key, Log]:
        key = self._chance.choice(KEYS)
        return key, self._directory.logs[key]

    def _promise(self, key: Key, **changed: int) -> None:
        old = self._promises.get(key, Promise(0, 0, {}))
        start, end = changed.get("start", old.start), changed.get("end", old.end)
        batches = {base: data for base, data in self._appended[key].items() if base < end}
        self._promises[key] = Promise(start, end, batches)
        self.files.mark(dict(self._promises))

    def _append(self) -> None:
        key, log = self._log()
        for _ in range(self._chance.randrange(1, 4)):
            values = [self._chance.randbytes(self._chance.randrange(60)) for _ in range(2)]
            is_idempotent = self._chance.random() < 0.5
            batch = batch_of(
                values,
                timestamp=WALL_MS + self._chance.randrange(DAY_MS),
                producer_id=7 if is_idempotent else -1,
                base_sequence=self._sequence,
            )
            self._sequence += 2 * is_idempotent
            header = read_header(batch)
            base_offset = log.append(batch, header, leader_epoch=self._epoch, wall_ms=WALL_MS)
            self._appended[key][base_offset] = bytes(batch)
            self.ever[key].setdefault(base_offset, set()).add(bytes(batch))
            log.high_watermark = log.log_end_offset

    def _stage(self) -> None:
        """A thread writes what a leader has sent; whatever comes next, it is not appended yet."""
        key, log = self._log()
        offset, epoch = log.log_end_offset, log.epochs.latest
        batches = []
        for base_offset in range(offset, offset + 2 * self._chance.randrange(1, 4), 2):
            values = [self._chance.randbytes(self._chance.randrange(60)) for _ in range(2)]
            batch = batch_of(values, timestamp=WALL_MS + self._chance.randrange(DAY_MS))
            set_offset_and_epoch(batch, base_offset, epoch)
            self.ever[key].setdefault(base_offset, set()).add(bytes(batch))
            batches.append(bytes(batch))
        with mock.patch.object(following, "STAGED_BYTES_MIN", 1):
            staged = log.stage(memoryview(b"".join(batches)))
        if staged is not None:
            staged.run()
            self._staged = key, log, staged

    def _append_staged(self) -> None:
        if self._staged is None:
            return
        key, log, staged = self._staged
        self._staged = None
        if self._directory.logs[key] is log:
            end = log.append_staged(staged, wall_ms=WALL_MS).offset_end
            for batch, header in staged.batches:
                if header.base_offset < end and self._took(log, header.base_offset, batch, end):
                    self._appended[key][header.base_offset] = bytes(batch)
            log.high_watermark = log.log_end_offset
        staged.close()

    def _took(self, log: Log, base_offset: int, batch: memoryview, end: int) -> bool:
        """Whether it is this one that is in the log; another may have come before it."""
        if base_offset < log.log_start_offset:
            return False
        span = log.read(base_offset, size_bytes_max=1, offset_end=end)
        assert span is not None
        data = span.read()
        span.release()
        return bytes(data) == bytes(batch)

    def _append_and_flush(self) -> None:
        self._append()
        for key, log in self._directory.logs.items():
            plan = log.flush_plan()
            if plan is not None:
                plan.run()
                log.flushed(plan)
                self._promise(key, end=log.recovery_point)

    def _checkpoint(self) -> None:
        self._directory.checkpoint()

    def _move_start(self) -> None:
        key, log = self._log()
        if log.high_watermark > log.log_start_offset:
            offset = self._chance.randrange(log.log_start_offset, log.high_watermark + 1)
            self._promise(key, start=offset)  # from here on both are right
            log.advance_log_start(offset)
            self._directory.checkpoint()

    def _retain(self) -> None:
        key, log = self._log()
        config, log.config = log.config, replace(CONFIG, retention_bytes=1500)
        try:
            offset = expire(log, WALL_MS)
        finally:
            log.config = config
        if offset is None:
            return
        self._promise(key, start=log.log_start_offset)  # before anything is written of it
        knows_producers_from(log, offset)
        plan = start_plan(log, offset)
        if plan is not None:
            plan.run()
            log.flushed(plan)
        self._directory.checkpoint()
        removal = remove_plan(log, offset)
        if removal is not None:
            removal.run()
            removed(log)
            removal.unlink_plan().run()

    def _truncate(self) -> None:
        key, log = self._log()
        offset = self._chance.randrange(log.log_start_offset, log.log_end_offset + 1)
        bases = [base for base in self._appended[key] if base < offset]
        # A batch goes as a whole: nothing from the one with `offset` on is promised any more.
        end = max((b for b in bases if b + 2 > offset), default=offset)
        self._promise(key, end=min(end, self._promises[key].end))
        log.truncate(offset)
        self._appended[key] = {
            base: data for base, data in self._appended[key].items() if base < log.log_end_offset
        }
        self._directory.checkpoint()

    def _begin_epoch(self) -> None:
        self._epoch += 1
        for log in self._directory.logs.values():
            log.assign_leader_epoch(self._epoch)

    def _restart(self) -> None:
        self._directory.close()
        for key, log in self._directory.logs.items():
            self._promise(key, end=log.log_end_offset)
        self._directory = open_directory(self.path, self.files)

    def _die(self) -> None:
        self._directory.abandon()
        self._directory = open_directory(self.path, self.files)

    def end(self) -> None:
        """Let go of the files."""
        self._directory.abandon()


def batches_of(log: Log) -> dict[int, bytes]:
    """All that a reader gets, by base offset."""
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while True:
        span = log.read(offset, size_bytes_max=1 << 20, offset_end=log.log_end_offset)
        if span is None:
            return found
        data = memoryview(span.read())
        span.release()
        for position, header in iter_batches(data):
            found[header.base_offset] = bytes(data[position : position + header.size_bytes])
            offset = header.next_offset
