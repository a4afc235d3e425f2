"""Batches of a producer that are almost right: a field, a record, a length or a bit is wrong."""

import random
from collections.abc import Callable
from itertools import accumulate
from struct import calcsize
from typing import Final

from odradek.protocol.primitives import INT32_MAX, INT64_MAX
from odradek.protocol.records import Record, build_batch
from odradek.protocol.records.batch import (
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    BatchHeader,
    read_header,
    seal,
)
from odradek.protocol.records.compression import Codec, compress, decompress

BODY_BYTES_MAX: Final = 1 << 20
_TIMESTAMP: Final = 1_700_000_000_000
_HEADERS: Final[tuple[tuple[tuple[str, bytes | None], ...], ...]] = (
    *((), (), (("h", b"v"),), (("", None), ("h", b"v" * 130))),
)
_ENDS: Final = list(accumulate(calcsize(f">{form}") for form in HEADER.format[1:]))
_FIELDS: Final = dict(zip(BatchHeader._fields, map(slice, [0, *_ENDS], _ENDS), strict=False))
"""Where each field of the header is."""
_NUMBERS: Final = (
    -INT64_MAX - 1,
    -INT32_MAX - 1,
    -2,
    -1,
    0,
    1,
    2,
    5,
    127,
    128,
    INT32_MAX,
    INT64_MAX,
)
_VARINTS: Final = (
    b"\xff" * 10,
    b"\x80" * 4 + b"\x10",
    b"\xff\xff\xff\xff\x0f",
    b"\x80\x00",
    b"\x01",
)


def almost_batch(chance: random.Random) -> bytes:
    """What a Produce of one partition may carry; some are right after all."""
    batch = _batch(chance)
    if chance.random() < 0.4:
        _change_body(chance, batch)
    for _ in range(chance.choice((0, 1, 1, 2))):
        chance.choice(_CHANGES)(chance, batch)
    if len(batch) > HEADER_SIZE_BYTES:
        if chance.random() < 0.7:
            _set(batch, "batch_length", len(batch) - LENGTH_OVERHEAD_BYTES)
        if chance.random() < 0.8:
            seal(batch)
    if chance.random() < 0.05:
        batch += _batch(chance)
    return bytes(batch)


def _batch(chance: random.Random) -> bytearray:
    count = chance.choice((1, 1, 2, 3, 20))
    texts = (None, b"", chance.randbytes(3), b"x" * 70)
    records = [
        Record(
            offset,
            _TIMESTAMP + chance.randrange(-200, 200),
            chance.choice(texts),
            chance.choice(texts),
            list(chance.choice(_HEADERS)),
        )
        for offset in range(count)
    ]
    return build_batch(records, codec=chance.choice(list(Codec)))


def _change_body(chance: random.Random, batch: bytearray) -> None:
    """Change the records, and compress them again."""
    codec = read_header(batch).codec
    body = bytearray(decompress(codec, memoryview(batch)[HEADER_SIZE_BYTES:], BODY_BYTES_MAX))
    for _ in range(chance.choice((1, 1, 2))):
        chance.choice(_CHANGES_OF_BYTES)(chance, body, 0)
    batch[HEADER_SIZE_BYTES:] = compress(codec, body)
    _set(batch, "batch_length", len(batch) - LENGTH_OVERHEAD_BYTES)
    seal(batch)


def _set(batch: bytearray, field: str, number: int) -> None:
    """Set a field to what fits in it of a number, unless the batch ends before."""
    place = _FIELDS[field]
    size_bytes = place.stop - place.start
    if place.stop <= len(batch):
        batch[place] = (number & ((1 << 8 * size_bytes) - 1)).to_bytes(size_bytes, "big")


def _field(chance: random.Random, batch: bytearray) -> None:
    name, place = chance.choice(list(_FIELDS.items()))
    bits = 8 * (place.stop - place.start)
    near = int.from_bytes(batch[place], "big") + chance.choice((-1, 1, 1 << chance.randrange(bits)))
    _set(batch, name, chance.choice((*_NUMBERS, near, near)))


def _attributes(chance: random.Random, batch: bytearray) -> None:
    _set(batch, "attributes", chance.randrange(128))


def _producer(chance: random.Random, batch: bytearray) -> None:
    """An idempotent producer that nobody has given this id, which Kafka allows."""
    _set(batch, "producer_id", chance.randrange(3))
    _set(batch, "producer_epoch", chance.randrange(3))
    _set(batch, "base_sequence", chance.choice((0, 0, 1, 5, INT32_MAX)))


def _bytes(chance: random.Random, batch: bytearray) -> None:
    chance.choice(_CHANGES_OF_BYTES)(chance, batch, chance.choice((0, HEADER_SIZE_BYTES)))


def _flip(chance: random.Random, data: bytearray, first: int) -> None:
    if len(data) > first:
        data[chance.randrange(first, len(data))] ^= 1 << chance.randrange(8)


def _cut(chance: random.Random, data: bytearray, first: int) -> None:
    del data[chance.randrange(min(first, len(data)), len(data) + 1) :]


def _drop(chance: random.Random, data: bytearray, first: int) -> None:
    at = chance.randrange(min(first, len(data)), len(data) + 1)
    del data[at : at + chance.choice((1, 2, 8))]


def _twice(chance: random.Random, data: bytearray, first: int) -> None:
    at = chance.randrange(min(first, len(data)), len(data) + 1)
    data[at:at] = data[at : at + chance.choice((1, 4, len(data)))]


def _put(chance: random.Random, data: bytearray, first: int) -> None:
    """A varint in the place of a byte, or noise."""
    at = chance.randrange(min(first, len(data)), len(data) + 1)
    data[at : at + 1] = chance.choice((*_VARINTS, chance.randbytes(3)))


def _grow(chance: random.Random, data: bytearray, first: int) -> None:
    data += chance.choice((b"\0", chance.randbytes(9), bytes(data[first:])))


_CHANGES: Final[tuple[Callable[[random.Random, bytearray], None], ...]] = (
    *(_field, _field, _field, _attributes, _producer, _bytes, _bytes),
)
_CHANGES_OF_BYTES: Final[tuple[Callable[[random.Random, bytearray, int], None], ...]] = (
    *(_flip, _flip, _cut, _drop, _twice, _put, _grow),
)
