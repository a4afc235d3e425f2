"""Record batches (magic 2) made by hand: a header, and the same record again and again."""

import struct
import time

import fastcrc

HEADER_SIZE_BYTES = 61


def varint(value: int) -> bytes:
    """A zigzag varint, as records use them."""
    rest = value << 1 ^ value >> 63
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def record(offset_delta: int, value: bytes) -> bytes:
    """One record without key and headers."""
    body = b"\x00" + varint(0) + varint(offset_delta) + varint(-1) + varint(len(value)) + value
    body += varint(0)
    return varint(len(body)) + body


def batch(count: int, value: bytes) -> bytes:
    """A batch of `count` records with this value; its base offset is for the broker to set."""
    timestamp = time.time_ns() // 1_000_000  # an old one would fall to the retention time
    records = b"".join(record(delta, value) for delta in range(count))
    after_crc = struct.pack(">hiqqqhii", 0, count - 1, timestamp, timestamp, -1, -1, -1, count)
    crc = fastcrc.crc32.iscsi(after_crc + records)
    batch_length = 4 + 1 + 4 + len(after_crc) + len(records)
    return struct.pack(">qiibI", 0, batch_length, -1, 2, crc) + after_crc + records


def batch_within(size_bytes_max: int, value_size_bytes: int) -> tuple[bytes, int]:
    """The fullest batch that is not larger than `size_bytes_max`, and its record count.

    Every record of a topic filled with it has the same size, so a reader finds the next offset from
    the number of bytes alone.
    """
    value = bytes(range(256)) * (value_size_bytes // 256 + 1)
    value = value[:value_size_bytes]
    count = max(1, (size_bytes_max - HEADER_SIZE_BYTES) // (value_size_bytes + 4))
    while count > 1 and len(batch(count, value)) > size_bytes_max:
        count -= 1
    return batch(count, value), count
