"""Walks over the records of a batch for what the cleaner needs: key, offset, end, tombstone or not.

A cleaning spends most of its time here. So the walks create no objects but the keys, skip the
fields not needed, and decode varints of one and two bytes inline. Lengths stay zigzag-encoded: an
odd one is negative, which means null.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

from odradek.protocol.errors import BadLength, Truncated
from odradek.protocol.records.varint import read_varint

KEY_BYTES_MAX: Final = 31
"""Longer keys are replaced by their digest. It is one byte longer, so it never equals a key."""

_LONG_KEY: Final = KEY_BYTES_MAX * 2  # as the length is encoded


class RecordScan(NamedTuple):
    """The records of a batch, as parallel lists."""

    keys: list[bytes | None]
    offsets: Sequence[int]
    ends: list[int]  # positions where the next record begins
    valueless: list[int]  # indices of the records without a value: tombstones
    has_null_keys: bool


def digest(key: bytes) -> bytes:
    """What the map has in place of a long key."""
    return blake2b(key, digest_size=KEY_BYTES_MAX + 1).digest()


def scan_records(data: bytes, position: int, end: int, base_offset: int, count: int) -> RecordScan:
    """Walk the `count` uncompressed records in [position, end).

    Raises: MalformedMessage.
    """
    keys: list[bytes | None] = []
    offsets: list[int] = []
    ends: list[int] = []
    valueless: list[int] = []
    has_null_keys = False
    offset_min = base_offset
    add_key, add_offset, add_end = keys.append, offsets.append, ends.append
    try:
        for index in range(count):
            size = data[position]
            position += 1
            if size > 127:
                high = data[position]
                if high > 127:
                    size, position = _read_raw(data, position - 1)
                else:
                    size = (size & 127) | high << 7
                    position += 1
            record_end = position + (size >> 1)
            position += 1  # the attributes, all unused
            while data[position] > 127:
                position += 1
            offset = data[position + 1]
            position += 2
            if offset > 127:
                high = data[position]
                if high > 127:
                    offset, position = _read_raw(data, position - 1)
                else:
                    offset = (offset & 127) | high << 7
                    position += 1
            length = data[position]
            position += 1
            if length > 127:
                length, position = _read_raw(data, position - 1)
            if length & 1:
                has_null_keys = True
                add_key(None)
            else:
                key_position = position
                position += length >> 1
                key = data[key_position:position]
                add_key(digest(key) if length > _LONG_KEY else key)
            if data[position] & 1:
                valueless.append(index)
            negative = (size | offset) & 1  # in zigzag encoding
            offset = base_offset + (offset >> 1)
            if negative or offset < offset_min or not position < record_end <= end:
                raise BadLength(f"record {index} does not fit into its batch")
            offset_min = offset + 1
            add_offset(offset)
            add_end(record_end)
            position = record_end
    except IndexError:
        raise Truncated("the bytes end inside a record") from None
    if position != end:
        raise BadLength("bytes follow the last record of a batch")
    return RecordScan(keys, offsets, ends, valueless, has_null_keys)


def scan_keys(data: bytes, position: int, end: int, count: int) -> list[bytes | None]:
    """The map keys of the records in [position, end), whose offset deltas are 0, 1, 2, …

    Raises: MalformedMessage.
    """
    keys: list[bytes | None] = []
    add_key = keys.append
    try:
        for _ in range(count):
            size = data[position]
            position += 1
            if size > 127:
                high = data[position]
                if high > 127:
                    size, position = _read_raw(data, position - 1)
                else:
                    size = (size & 127) | high << 7
                    position += 1
            record_end = position + (size >> 1)
            position += 1
            while data[position] > 127:
                position += 1
            position += 1
            while data[position] > 127:
                position += 1
            length = data[position + 1]
            position += 2
            if length > 127:
                length, position = _read_raw(data, position - 1)
            if length & 1:
                add_key(None)
            else:
                key = data[position : position + (length >> 1)]
                add_key(digest(key) if length > _LONG_KEY else key)
                position += length >> 1
            if size & 1 or not position < record_end <= end:
                raise BadLength("a record does not fit into its batch")
            position = record_end
    except IndexError:
        raise Truncated("the bytes end inside a record") from None
    if position != end:
        raise BadLength("bytes follow the last record of a batch")
    return keys


def scan_ends(data: bytes, position: int, end: int, count: int) -> list[int]:
    """The end positions of the records in [position, end).  Raises: MalformedMessage."""
    ends: list[int] = []
    add_end = ends.append
    try:
        for _ in range(count):
            size = data[position]
            position += 1
            if size > 127:
                high = data[position]
                if high > 127:
                    size, position = _read_raw(data, position - 1)
                else:
                    size = (size & 127) | high << 7
                    position += 1
            position += size >> 1
            add_end(position)
    except IndexError:
        raise Truncated("the bytes end inside a record") from None
    if position != end:
        raise BadLength("bytes follow the last record of a batch")
    return ends


def is_valueless(data: bytes, position: int) -> bool:
    """Whether the record at `position`, which another walk has checked, is a tombstone."""
    while data[position] > 127:
        position += 1
    position += 2
    while data[position] > 127:
        position += 1
    position += 1
    while data[position] > 127:
        position += 1
    length = data[position + 1]
    position += 2
    if length > 127:
        length, position = _read_raw(data, position - 1)
    if not length & 1:
        position += length >> 1
    return data[position] & 1 == 1


def _read_raw(data: bytes, position: int) -> tuple[int, int]:
    """A varint in its zigzag form, and the position after it."""
    value, position = read_varint(data, position)
    return (value << 1) ^ (value >> 31), position
