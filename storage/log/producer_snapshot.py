"""Producer state on disk: `<offset>.snapshot` holds the state before that offset.

Kafka writes one at each roll (named after the new segment) and one at a clean shutdown. Odradek
also writes one with some flushes, so that recovery after a crash reads less; these are removed once
a later recovery point is on disk. Only the newest batch of each producer is stored.
"""

import logging
import re
import struct
from collections.abc import Iterable
from typing import Final

from odradek.protocol.records.batch import crc32c

from ..files import FileSystem
from .log_file import Bytes
from .producer_state import KeptBatch, ProducerEntry, ProducerState

logger: Final = logging.getLogger("odradek.storage")

SUFFIX: Final = ".snapshot"
_STEM: Final = re.compile(r"[0-9]{20}")
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hIi")  # version, CRC of everything after it, count
_CRC_START: Final = 6
_ENTRY: Final = struct.Struct(">qhiqiqiq")


def snapshot_path(directory: str, offset: int) -> str:
    """The path of the snapshot before `offset`."""
    return f"{directory}/{offset:020d}{SUFFIX}"


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    """The offsets of the snapshots in a directory with these names, rising."""
    stems = (name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX))
    return sorted(int(stem) for stem in stems if _STEM.fullmatch(stem))


def encode_snapshot(state: ProducerState) -> bytes:
    """The bytes of a snapshot file."""
    body = bytearray(_HEADER.pack(_VERSION, 0, len(state)))
    for entry in state.entries():
        last = entry.batches[-1] if entry.batches else KeptBatch(-1, -1, 0, -1)
        body += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last.last_sequence,
            last.last_offset,
            last.offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset,
        )
    struct.pack_into(">I", body, 2, crc32c(memoryview(body)[_CRC_START:]))
    return bytes(body)


def decode_snapshot(data: Bytes) -> ProducerState:
    """The state in a snapshot file.  Raises: ValueError (version, size, checksum)."""
    if len(data) < _HEADER.size:
        raise ValueError("the snapshot ends inside its header")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"version {version} is not {_VERSION}")
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise ValueError(f"{count} entries do not make {len(data)} bytes")
    if crc32c(memoryview(data)[_CRC_START:]) != crc:
        raise ValueError("the checksum is wrong")
    return ProducerState(_decode_entry(data, index) for index in range(count))


def _decode_entry(data: Bytes, index: int) -> ProducerEntry:
    (
        producer_id,
        producer_epoch,
        last_sequence,
        last_offset,
        offset_delta,
        last_timestamp,
        coordinator_epoch,
        transaction_first_offset,
    ) = _ENTRY.unpack_from(data, _HEADER.size + index * _ENTRY.size)
    last = KeptBatch(last_sequence, last_offset, offset_delta, last_timestamp)
    return ProducerEntry(
        producer_id,
        producer_epoch,
        batches=(last,) if last_offset >= 0 else (),
        last_timestamp=last_timestamp,
        coordinator_epoch=coordinator_epoch,
        transaction_first_offset=transaction_first_offset,
    )


def newest_snapshot(
    files: FileSystem, directory: str, offsets: list[int], *, offset_max: int
) -> tuple[int, ProducerState] | None:
    """The newest readable snapshot at or below `offset_max`; unreadable ones are removed."""
    for offset in reversed([offset for offset in offsets if offset <= offset_max]):
        path = snapshot_path(directory, offset)
        try:
            return offset, decode_snapshot(files.read_bytes(path) or b"")
        except ValueError as error:
            logger.warning("producer snapshot unreadable, removed path=%s error=%s", path, error)
            files.unlink(path)
            offsets.remove(offset)
    return None
