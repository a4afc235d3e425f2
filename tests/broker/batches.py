"""Batches that lie: any field of the header can be changed, with or without a fitting checksum."""

import struct
from typing import Final

from odradek.protocol.records import crc32c

_FIELDS: Final = {
    "base_offset": (0, ">q"),
    "batch_length": (8, ">i"),
    "partition_leader_epoch": (12, ">i"),
    "magic": (16, ">b"),
    "crc": (17, ">I"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "base_timestamp": (27, ">q"),
    "max_timestamp": (35, ">q"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}
_CHECKED_FROM: Final = 21


def altered(batch: bytes | bytearray, **fields: int) -> bytearray:
    """A copy with other header fields, and a checksum that fits unless `crc` is given."""
    data = bytearray(batch)
    for name, value in fields.items():
        position, form = _FIELDS[name]
        struct.pack_into(form, data, position, value)
    return data if "crc" in fields else sealed(data)


def with_records(batch: bytes | bytearray, records: bytes | bytearray) -> bytearray:
    """A copy with other bytes after the header, and a length and checksum that fit."""
    data = bytearray(batch[:61]) + records
    return altered(data, batch_length=len(data) - 12)


def sealed(data: bytearray) -> bytearray:
    """Give the batch the checksum that fits."""
    struct.pack_into(">I", data, 17, crc32c(memoryview(data)[_CHECKED_FROM:]))
    return data
