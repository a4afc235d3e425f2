"""Decodes records into Arrow columns, without an object for each record.

The fields of all records of a chunk are read together, and Arrow copies keys and values straight
from the bytes.
"""

from collections.abc import Sequence
from dataclasses import astuple
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from odradek.protocol.errors import BadLength
from odradek.protocol.records import HEADER_SIZE_BYTES, BatchHeader, decompress
from odradek.protocol.records.batch import CODEC_MASK, LENGTH_MIN, LOG_APPEND_TIME

from ..times import TIME_MS_MAX
from .batches import RECORDS_BYTES_MAX, Batch, Damage
from .fields import Fields, Headers, Slices
from .finding import RECORD_BYTES_MIN, Chains, find_records
from .varints import Numbers

Column = Any

CHUNK_BYTES: Final = 4 << 20
CHUNK_ROWS: Final = 1 << 16
TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", TIMESTAMP),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS: Final = SCHEMA.append(pa.field("headers", pa.list_(_HEADER)))


DAMAGE_SCHEMA: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("file", pa.string()),
        ("position", pa.int64()),
        ("positionEnd", pa.int64()),
        ("offset", pa.int64()),
        ("offsetEnd", pa.int64()),
        ("problem", pa.string()),
    ]
)


class Decoded(NamedTuple):
    """A chunk's rows, and the numbers of its batches with invalid records."""

    rows: Any
    malformed: list[int]


class Chunk:
    """Batches of one partition, from one piece of a file, whose records are decoded together."""

    def __init__(self, topic: str, partition: int, piece: bytes, *, include_headers: bool) -> None:
        self.piece = piece
        self._topic = topic
        self._partition = partition
        self._include_headers = include_headers
        self._headers: list[BatchHeader] = []
        self._starts: list[int] = []
        self._sizes: list[int] = []
        self._decompressed: dict[int, memoryview] = {}
        self._size_bytes = 0
        self._row_count = 0

    @property
    def is_full(self) -> bool:
        """Whether it is time to decode."""
        return self._size_bytes >= CHUNK_BYTES or self._row_count >= CHUNK_ROWS

    def add(self, batch: Batch) -> None:
        """Add a batch of the piece.  Raises: MalformedMessage; the batch is then not added."""
        header = batch.header
        start, size_bytes = batch.at + HEADER_SIZE_BYTES, header.batch_length - LENGTH_MIN
        codec, count = header.attributes & CODEC_MASK, header.record_count
        records = None
        if codec and size_bytes:  # compaction leaves empty batches that keep their codec
            view = memoryview(self.piece)[start : start + size_bytes]
            records = decompress(codec, view, RECORDS_BYTES_MAX)
            size_bytes = len(records)
        if not 0 <= count * RECORD_BYTES_MIN <= size_bytes:
            raise BadLength(f"a batch of {size_bytes} bytes claims {count} records")
        if records is not None:
            self._decompressed[len(self._headers)] = records
        self._headers.append(header)
        self._starts.append(start)
        self._sizes.append(size_bytes)
        self._size_bytes += size_bytes
        self._row_count += count

    def decode(self, offset_start: int, offset_end: int | None) -> Decoded:
        """The rows with offsets in [start, end)."""
        heads = np.array([(h[0], h[6], h[12]) for h in self._headers], np.int64)
        base_offset, last_delta, counts = heads.reshape(len(heads), 3).T
        raw, start, end = self._bytes()
        found = find_records(raw, Chains(start, end, counts), counts == last_delta + 1)
        fields = Fields(np.frombuffer(raw, np.uint8), found.start, found.end)
        is_malformed = found.is_malformed
        if is_malformed.any():
            fields.is_bad |= np.repeat(is_malformed, counts)
        headers = fields.headers() if self._include_headers else None
        offset = np.repeat(base_offset, counts)
        offset += fields.offset_delta
        time_ms, kind = self._times(fields.time_delta, counts)
        wanted = offset >= offset_start
        if offset_end is not None:
            wanted &= offset < offset_end
        if fields.is_bad.any():
            number = np.repeat(np.arange(len(counts)), counts)
            is_malformed[number[fields.is_bad]] = True
            wanted &= ~is_malformed[number]
        key, value = fields.key, fields.value
        if not wanted.all():
            rows = np.flatnonzero(wanted)
            key, value = key.of(rows), value.of(rows)
            offset, time_ms, kind = offset[rows], time_ms[rows], kind[rows]
            headers = None if headers is None else headers.of(rows)
        size = len(offset)
        arrays = [
            *_gather(raw, (key, value), pa.binary()),
            pa.repeat(pa.scalar(self._topic, pa.string()), size),
            pa.array(np.full(size, self._partition, np.int32)),
            pa.array(offset),
            _timestamps(time_ms),
            pa.array(kind),
        ]
        schema = SCHEMA
        if headers is not None:
            arrays.append(_lists(raw, headers))
            schema = SCHEMA_WITH_HEADERS
        malformed = np.flatnonzero(is_malformed).tolist()
        return Decoded(pa.RecordBatch.from_arrays(arrays, schema=schema), malformed)

    def _times(self, delta: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
        """Timestamps and their types: CreateTime or LogAppendTime."""
        heads = np.array([(h[7], h[8], h[5] & LOG_APPEND_TIME) for h in self._headers], np.int64)
        base, appended, is_append = heads.reshape(len(heads), 3).T
        kind = np.repeat((is_append != 0).astype(np.int32), counts)
        time_ms = np.repeat(np.where(is_append, appended, base), counts)
        time_ms += np.where(kind, 0, delta) if is_append.any() else delta
        return time_ms, kind

    def _bytes(self) -> tuple[bytes, Numbers, Numbers]:
        """The bytes that hold all records, and where those of each batch begin and end in them.

        If nothing is compressed, that is the piece itself.
        """
        start, size = np.array(self._starts), np.array(self._sizes)
        if not self._decompressed:
            return self.piece, start, start + size
        view = memoryview(self.piece)
        extents = enumerate(zip(self._starts, self._sizes, strict=True))
        records = (self._decompressed.get(n, view[at : at + length]) for n, (at, length) in extents)
        end = np.cumsum(size)
        return b"".join(records), end - size, end


def damage_table(topic: str, partition: int, damages: Sequence[Damage]) -> Any:
    """The damage, one row each."""
    rows = [(topic, partition, *astuple(damage)) for damage in damages]
    names = DAMAGE_SCHEMA.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, row, strict=True)) for row in rows], schema=DAMAGE_SCHEMA
    )


def _timestamps(time_ms: Numbers) -> Column:
    """Timestamps as a column, null where Spark cannot represent them; modifies `time_ms`."""
    beyond = None
    if len(time_ms) and not -TIME_MS_MAX <= time_ms.min() <= time_ms.max() <= TIME_MS_MAX:
        beyond = (time_ms > TIME_MS_MAX) | (time_ms < -TIME_MS_MAX)
        time_ms[beyond] = 0
    time_ms *= 1000
    return pa.array(time_ms, mask=beyond).view(TIMESTAMP)


def _lists(raw: bytes, headers: Headers) -> Column:
    """Lists of names and values; null for a record without headers, as in Spark."""
    names, values = _gather(raw, (headers.names, headers.values), pa.binary())
    structs = pa.StructArray.from_arrays([_to_text(names), values], fields=list(_HEADER))
    counts = headers.counts
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    is_there = pa.array(counts > 0).buffers()[1]
    buffers = [is_there, pa.py_buffer(offsets)]
    return pa.Array.from_buffers(pa.list_(_HEADER), len(counts), buffers, children=[structs])


def _gather(raw: bytes, columns: tuple[Slices, Slices], kind: Any) -> tuple[Column, Column]:
    """Copy slices of the bytes into two columns.

    Arrow sees the bytes as one long column in which each wanted slice is followed by the bytes up
    to the next one, and takes every other element of it.
    """
    count = len(columns[0].start)
    if count == 0:
        return pa.array([], kind), pa.array([], kind)
    offsets = np.empty((count, 4), np.int32)
    offsets[:, 0], offsets[:, 1] = columns[0].start, columns[0].end
    offsets[:, 2], offsets[:, 3] = columns[1].start, columns[1].end
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(raw)]
    whole = pa.Array.from_buffers(kind, count * 4 - 1, buffers)
    first = np.arange(0, count * 4, 4, dtype=np.int32)
    results = []
    for number, column in enumerate(columns):
        mask = column.is_null if column.is_null.any() else None
        results.append(whole.take(pa.array(first + 2 * number, mask=mask)))
    return results[0], results[1]


def _to_text(names: Column) -> Column:
    """Header names as text; like Java, replaces invalid UTF-8."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(name, "utf-8", "replace") for name in names.to_pylist()], pa.string())
