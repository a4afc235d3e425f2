"""A log with everything in it, what it must answer, and damage to its files."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    iter_batches,
)
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import CorruptLog, OffsetOutOfRange
from odradek.storage.log.checkpoint import TopicPartition
from odradek.storage.log.log import Log
from odradek.storage.log.log_config import LogConfig

from ..support import WALL_MS, UnsyncedFileSystem, append, batch_of, flush, read_bytes

CONFIG: Final = LogConfig(segment_bytes=1500, index_interval_bytes=150)
KEY: Final[TopicPartition] = ("t", 0)
BATCHES: Final = 60
START: Final = 7  # of the log, inside its first segment
CLUSTER_ID: Final = "abcdefghijklmnopqrstuv"


def fill(log: Log, count: int, halfway: Callable[[], None]) -> None:
    """Plain, idempotent and transactional batches, aborted and committed, of rising epochs."""
    sequences = dict.fromkeys((1, 2, 3), 0)
    for number in range(count):
        if number == count // 2:
            halfway()
        epoch, timestamp = number // 17, WALL_MS + number * 10 - (number % 5) * 25
        values = [b"%d-%d" % (number, index) * (number % 7 + 1) for index in range(number % 3 + 1)]
        if number % 6 == 5:
            kind = MarkerType.ABORT if number % 12 == 5 else MarkerType.COMMIT
            batch = memoryview(
                control_batch(
                    kind, producer_id=3, producer_epoch=0, coordinator_epoch=1, timestamp=timestamp
                )
            )
        elif number % 2:
            batch = batch_of(values, timestamp=timestamp)
        else:
            producer_id = 3 if number % 6 == 4 else 1 + number % 4 // 2
            records = [Record(i, timestamp, None, value) for i, value in enumerate(values)]
            batch = memoryview(
                build_batch(
                    records,
                    producer_id=producer_id,
                    producer_epoch=0,
                    base_sequence=sequences[producer_id],
                    is_transactional=producer_id == 3,
                )
            )
            sequences[producer_id] += len(values)
        append(log, batch, leader_epoch=epoch)
    log.high_watermark = log.log_end_offset
    log.advance_log_start(START)


@dataclass(frozen=True)
class Answers:
    """What a log says to all that a client may ask."""

    fetches: dict[int, bytes]
    times: tuple[object, ...]
    epochs: tuple[tuple[int, int], ...]
    aborted: tuple[object, ...]
    producers: tuple[object, ...]


def answers_of(log: Log) -> Answers:
    """Ask the log; without any memory of earlier reads."""
    fetches = {}
    for offset in range(START, log.log_end_offset, 3):
        if offset < log.log_start_offset:
            with pytest.raises(OffsetOutOfRange):
                read_bytes(log, offset)
            continue
        log.reader.forget()
        fetches[offset] = read_bytes(log, offset, size_bytes_max=1 + offset * 37 % 900)
    return Answers(
        fetches,
        tuple(log.offset_for_timestamp(WALL_MS + ms) for ms in range(-50, BATCHES * 10 + 20, 35)),
        tuple(log.end_offset_for_epoch(epoch) for epoch in range(5)),
        tuple(log.aborted_transactions(START, log.log_end_offset)),
        tuple(
            (entry.producer_id, entry.producer_epoch, entry.batches[-1].last_sequence)
            for entry in sorted(log.producers.entries(), key=lambda entry: entry.producer_id)
        ),
    )


class Specimen:
    """A data directory as a stop has left it, which can be damaged and put back again."""

    def __init__(self, path: Path, *, clean: bool, batches: int = BATCHES) -> None:
        self.path = path
        self.clean = clean
        data_dir = self.open()
        log = data_dir.create_log(*KEY, topic_id=bytes(range(16)), config=CONFIG)
        fill(log, batches, lambda: flush(log))
        assert len(log.segments) > 1
        log.cleaner_offset = START
        if clean:
            data_dir.close()
        else:
            log.segments.active.write_indexes()
            data_dir.checkpoint()
            data_dir.abandon()
        self.files = {p.relative_to(path): p.read_bytes() for p in _files_below(path)}
        data_dir = self.open()
        self.expected = answers_of(data_dir.logs[KEY])
        self.batches = batches_in(data_dir.logs[KEY])
        data_dir.abandon()
        self.restore()

    def open(self) -> DataDir:
        """Start on it."""
        return DataDir.open(
            str(self.path),
            1,
            CLUSTER_ID,
            UnsyncedFileSystem(),
            config_of=lambda topic: CONFIG,
            wall_ms=WALL_MS,
        )

    def named(self, suffix: str) -> list[Path]:
        """The files with a suffix, relative."""
        return sorted(path for path in self.files if path.name.endswith(suffix))

    def restore(self) -> None:
        """Put everything back."""
        for path in _files_below(self.path):
            if path.relative_to(self.path) not in self.files:
                path.unlink()
        for name, data in self.files.items():
            path = self.path / name
            if not path.exists() or path.read_bytes() != data:
                path.write_bytes(data)


def _files_below(path: Path) -> Iterator[Path]:
    return (p for p in path.rglob("*") if p.is_file())


def damage(path: Path, chance: random.Random, *, gone: bool = True) -> str:
    """Do something bad to a file; return what."""
    data = path.read_bytes()
    kind = chance.choice(("cut", "cut", "grow", "random", "flip", "flip", "flip", "zero", "gone"))
    if kind == "gone" and gone:
        path.unlink()
        return kind
    path.write_bytes(damaged(data, kind, chance))
    return kind


def damaged(data: bytes, kind: str, chance: random.Random) -> bytes:
    """The same bytes after some damage."""
    at = chance.randrange(len(data)) if data else 0
    if kind == "cut":
        return data[:at]
    if kind == "grow":
        return data + bytes(chance.randrange(1, 5000))
    if kind == "random":
        return data[:at] + chance.randbytes(len(data) - at)
    if kind == "flip" and data:
        return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
    if kind == "zero":
        end = chance.randrange(at, len(data) + 1)
        return data[:at] + bytes(end - at) + data[end:]
    return b""


def batches_in(log: Log) -> dict[int, bytes]:
    """Each batch that can be fetched, by its base offset; what is refused is left out."""
    found = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        try:
            data = read_bytes(log, offset)
        except CorruptLog:
            offset += 1
            continue
        if not data:
            break
        for position, header in iter_batches(data):
            found[header.base_offset] = data[position : position + header.size_bytes]
            offset = max(offset, header.next_offset)
    return found
