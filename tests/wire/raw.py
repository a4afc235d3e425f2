"""Kafka's protocol by hand, for what no client would send. Only old, inflexible versions are used,
written here without the broker's own codec."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fastcrc.crc32 import iscsi as crc32c

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
API_VERSIONS: Final = 18


def string(text: str | None) -> bytes:
    data = None if text is None else text.encode()
    return struct.pack(">h", -1) if data is None else struct.pack(">h", len(data)) + data


def request(api_key: int, version: int, body: bytes = b"", *, correlation_id: int = 1) -> bytes:
    """A request with header v1."""
    return struct.pack(">hhi", api_key, version, correlation_id) + string("raw") + body


def produce(
    topic: str, partitions: Sequence[tuple[int, bytes]], *, version: int = 8, acks: int = 1
) -> bytes:
    """Produce v3 to v8 to partitions of one topic."""
    body = string(None) + struct.pack(">hii", acks, 10_000, 1) + string(topic)
    body += struct.pack(">i", len(partitions))
    for index, records in partitions:
        body += struct.pack(">ii", index, len(records)) + records
    return request(PRODUCE, version, body)


def produce_errors(answer: bytes, *, version: int = 8) -> dict[int, int]:
    """Partition to error code from the answer to `produce` (one topic)."""
    (name_size,) = struct.unpack_from(">h", answer, 4)
    position = 6 + name_size
    (count,) = struct.unpack_from(">i", answer, position)
    position += 4
    found = {}
    for _ in range(count):
        index, error = struct.unpack_from(">ih", answer, position)
        found[index] = error
        # Index, error, base offset, append time, log start offset
        position += 4 + 2 + 8 + 8 + (8 if version >= 5 else 0)
        if version >= 8:
            position = _skip_record_errors(answer, position)
    return found


def _skip_record_errors(answer: bytes, position: int) -> int:
    (errors,) = struct.unpack_from(">i", answer, position)
    position += 4
    for _ in range(errors):
        position = _skip_string(answer, position + 4)
    return _skip_string(answer, position)


def _skip_string(answer: bytes, position: int) -> int:
    (size_bytes,) = struct.unpack_from(">h", answer, position)
    return position + 2 + max(0, int(size_bytes))


def fetch(topic: str, *, offset: int = 0, size_bytes_max: int = 1 << 20) -> bytes:
    """Fetch v4 of partition 0."""
    body = struct.pack(">iiiibi", -1, 100, 1, size_bytes_max, 0, 1) + string(topic)
    body += struct.pack(">iiqi", 1, 0, offset, size_bytes_max)
    return request(FETCH, 4, body)


def varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    out = bytearray()
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def record(delta: int, value: bytes) -> bytes:
    """One record of a batch: no key, no headers."""
    body = b"\x00" + varint(0) + varint(delta) + varint(-1) + varint(len(value)) + value + varint(0)
    return varint(len(body)) + body


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBatch:
    """A batch whose every header field can lie."""

    payload: bytes = record(0, b"value")
    count: int = 1
    last_offset_delta: int | None = None
    attributes: int = 0
    magic: int = 2
    crc_change: int = 0
    length_change: int = 0
    base_offset: int = 0
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    timestamp: int = 1_700_000_000_000

    def encode(self) -> bytes:
        delta = self.count - 1 if self.last_offset_delta is None else self.last_offset_delta
        body = struct.pack(
            ">hiqqqhii",
            self.attributes,
            delta,
            self.timestamp,
            self.timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        )
        body += self.payload
        crc = (crc32c(body) + self.crc_change) & 0xFFFFFFFF
        length = 9 + len(body) + self.length_change
        return struct.pack(">qiibI", self.base_offset, length, -1, self.magic, crc) + body
