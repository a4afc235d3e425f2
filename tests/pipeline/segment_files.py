"""Data directories made without a broker, with the storage's own segments."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from odradek.pipeline.segments.options import ReadOptions, parse_options
from odradek.protocol.records import (
    MarkerType,
    Record,
    build_batch,
    control_batch,
    iter_records,
    read_header,
)
from odradek.storage.files import RealFileSystem
from odradek.storage.log.checkpoint import HIGH_WATERMARK, LOG_START, render_offsets
from odradek.storage.log.log_config import LogConfig
from odradek.storage.log.producer_state import ProducerState
from odradek.storage.log.segment import Segment, create_segment

TIME_MS = 1_700_000_000_000
CONFIG = LogConfig(index_interval_bytes=256)
MEBIBYTE = 1 << 20


class PartitionFiles:
    """The directory of one partition; `batch` appends, `roll` begins another segment."""

    def __init__(self, data_dir: Path, topic: str, partition: int = 0) -> None:
        self.key = topic, partition
        self.path = data_dir / f"{topic}-{partition}"
        self.path.mkdir(parents=True)
        self._data_dir = data_dir
        self._files = RealFileSystem()
        self._producers = ProducerState()
        self._sequences: dict[int, int] = {}
        self.next_offset = 0
        self._segment = self._create()

    def _create(self) -> Segment:
        segment = create_segment(self._files, str(self.path), self.next_offset)
        segment.prepare(TIME_MS, CONFIG)
        return segment

    def batch(self, count: int = 10, *, time_ms: int | None = None, **build: Any) -> int:
        """Append records that follow from their offsets; where the batch begins in its file."""
        first = self.next_offset
        records = [record(first + number, time_ms) for number in range(count)]
        return self.append(build_batch(records, **build))

    def append(self, batch: bytearray) -> int:
        """Append a batch as it is; where it begins in its file."""
        header = read_header(batch)
        position = self._segment.size_bytes
        self._segment.append(batch, header.last_offset, header.max_timestamp, TIME_MS, CONFIG)
        if header.producer_id >= 0:
            ended = self._producers.note(header, batch, header.base_offset, header.max_timestamp)
            if ended is not None and ended.is_aborted:
                self._segment.note_aborted(ended, self._producers)
        self.next_offset = header.next_offset
        return position

    def transactional(self, producer_id: int, count: int = 5) -> None:
        """A batch of an open transaction."""
        sequence = self._sequences.get(producer_id, 0)
        self._sequences[producer_id] = sequence + count
        self.batch(
            count,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
        )

    def end_transaction(self, producer_id: int, marker: MarkerType) -> None:
        """Its marker."""
        self.append(
            control_batch(
                marker,
                producer_id=producer_id,
                producer_epoch=0,
                coordinator_epoch=0,
                timestamp=TIME_MS,
                base_offset=self.next_offset,
            )
        )

    def roll(self) -> None:
        """Begin another segment."""
        self._segment.finish()
        self._segment.close()
        self._segment = self._create()

    def close(self) -> "PartitionFiles":
        """Write the indexes."""
        self._segment.finish()
        self._segment.close()
        return self

    @property
    def logs(self) -> list[Path]:
        """The segments' files, in order."""
        return sorted(self.path.glob("*.log"))


def record(offset: int, time_ms: int | None = None) -> Record:
    """The record that a test expects at an offset."""
    key = None if offset % 7 == 0 else b"key-%d" % (offset % 10)
    value = None if offset % 11 == 0 else b"value-%d " % offset * (offset % 20)
    headers: list[tuple[str, bytes | None]] = [
        (f"h{number}", None if number == 1 else b"%d" % offset) for number in range(offset % 3)
    ]
    return Record(offset, TIME_MS + offset if time_ms is None else time_ms, key, value, headers)


def write_checkpoints(
    data_dir: Path,
    marks: dict[tuple[str, int], int],
    starts: dict[tuple[str, int], int] | None = None,
) -> None:
    """High watermarks and log starts, as a broker leaves them."""
    (data_dir / HIGH_WATERMARK).write_bytes(render_offsets(marks))
    (data_dir / LOG_START).write_bytes(render_offsets(starts or {}))


def options(data_dir: Path, **given: str) -> ReadOptions:
    """The options of a read."""
    return parse_options({"path": str(data_dir), **given})


def flip(path: Path, position: int) -> None:
    """Damage one byte."""
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


def rows_of(batches: Sequence[bytes | bytearray]) -> list[Record]:
    """The records of whole batches, by the plain reader."""
    return [each for batch in batches for each in iter_records(batch, size_bytes_max=MEBIBYTE)]
