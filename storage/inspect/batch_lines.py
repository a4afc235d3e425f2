"""Dumps the batches and records of a segment as JSON objects."""

import base64
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from odradek.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.group_records import decode_record
from odradek.protocol.group_records.classic import MemberMetadata
from odradek.protocol.primitives import Buffer
from odradek.protocol.records import (
    BatchHeader,
    Codec,
    Record,
    check_crc,
    iter_records,
    read_marker,
)
from odradek.protocol.schema import Message, Struct

from ..files import FileSystem
from .pieces import Piece, SegmentReader

Line = dict[str, Any]
_GROUPS_TOPIC = "__consumer_offsets-"


@dataclass(frozen=True, slots=True)
class DumpOptions:
    """What to show of a segment; `offset_first` and `offset_last` are inclusive."""

    records: bool = False
    offset_first: int | None = None
    offset_last: int | None = None
    groups: bool | None = None
    """Whether to decode group records; None: if the partition is of __consumer_offsets."""
    record_bytes_max: int = 1 << 30

    def wants(self, offset: int | None, last_offset: int | None = None) -> bool:
        """Whether to show an entry with this offset, or a batch with this range of offsets."""
        if offset is None:
            return True
        last_offset = offset if last_offset is None else last_offset
        return not (
            (self.offset_first is not None and last_offset < self.offset_first)
            or (self.offset_last is not None and offset > self.offset_last)
        )


def batch_lines(
    files: FileSystem, path: str, base_offset: int, options: DumpOptions
) -> Iterator[Line]:
    """The objects of one `.log` file.  Raises: LogDirFailed."""
    directory, _, name = path.rpartition("/")
    infos = files.list_directory(directory or ".")
    size_bytes = next((info.size_bytes for info in infos if info.name == name), 0)
    file = files.open_log(path, size_bytes)
    groups = options.groups
    if groups is None:
        groups = directory.rpartition("/")[2].startswith(_GROUPS_TOPIC)
    reader = SegmentReader(file, base_offset)
    try:
        for piece in reader.pieces():
            header = piece.header
            if header is None or (piece.problem and piece.size_bytes != header.size_bytes):
                yield _damage(piece)
                continue
            if not options.wants(header.base_offset, header.last_offset):
                continue
            data = reader.read(piece)
            line = batch_line(piece, header, data)
            yield line
            if piece.problem is not None:
                yield _damage(piece)
            if options.records and line["crc_valid"]:
                yield from record_lines(data, header, options, groups=groups)
    finally:
        file.close()


def _damage(piece: Piece) -> Line:
    return {
        "type": "damage",
        "position": piece.position,
        "size_bytes": piece.size_bytes,
        "problem": piece.problem,
    }


def batch_line(piece: Piece, header: BatchHeader, data: memoryview) -> Line:
    """The object of one batch: the fields of its header."""
    try:
        check_crc(data, header)
        crc_valid = True
    except MalformedMessage:
        crc_valid = False
    horizon = header.base_timestamp if header.has_delete_horizon else None
    return {
        "type": "batch",
        "position": piece.position,
        "size_bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "count": header.record_count,
        "partition_leader_epoch": header.partition_leader_epoch,
        "magic": header.magic,
        "crc": header.crc,
        "crc_valid": crc_valid,
        "codec": Codec(header.codec).name.lower() if header.codec in set(Codec) else header.codec,
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": horizon,
    }


def record_lines(
    data: memoryview, header: BatchHeader, options: DumpOptions, *, groups: bool
) -> Iterator[Line]:
    """The objects of a batch's records."""
    sequence = header.base_sequence
    try:
        for record in iter_records(data, header, size_bytes_max=options.record_bytes_max):
            if not options.wants(record.offset):
                continue
            delta = record.offset - header.base_offset
            line: Line = {
                "type": "record",
                "offset": record.offset,
                "timestamp": record.timestamp,
                "sequence": -1 if sequence < 0 else (sequence + delta) & 0x7FFFFFFF,
                "key": as_text(record.key),
                "value": as_text(record.value),
                "headers": [[name, as_text(value)] for name, value in record.headers],
            }
            if header.is_control:
                line["control"] = _control(record)
            elif groups:
                line["group_record"] = _group_record(record)
            yield line
    except MalformedMessage as error:
        yield {
            "type": "damage",
            "position": None,
            "size_bytes": None,
            "problem": f"a record of the batch at offset {header.base_offset}: {error}",
        }


def as_text(data: Buffer | None) -> str | Line | None:
    """Bytes that are UTF-8 as a string, others as {"base64": …}."""
    if data is None:
        return None
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _control(record: Record) -> Line:
    try:
        marker = read_marker(record)
    except MalformedMessage as error:
        return {"problem": str(error)}
    return {"marker": marker.type.name, "coordinator_epoch": marker.coordinator_epoch}


def _group_record(record: Record) -> Line:
    key = bytes(record.key or b"")
    value = None if record.value is None else bytes(record.value)
    try:
        found = decode_record(key, value)
    except MalformedMessage as error:
        return {"problem": str(error)}
    if found is None:
        return {"problem": "a record type that is not known here"}
    value_shown = None if found.value is None else _fields(found.value)
    return {
        "kind": type(found.key).__name__.removesuffix("Key"),
        "key": _fields(found.key),
        "value": value_shown,
    }


def _fields(message: Struct) -> Line:
    """The fields by name; the opaque parts of classic members are decoded too."""
    fields = {field.name: _plain(getattr(message, field.name)) for field in message.FIELDS}
    if isinstance(message, MemberMetadata):
        fields["subscription"] = _opaque(message.subscription, ConsumerProtocolSubscription)
        fields["assignment"] = _opaque(message.assignment, ConsumerProtocolAssignment)
    return fields


def _opaque(data: bytes, kind: type[Message]) -> Any:
    """Decode the bytes of a consumer; show them as bytes if another client wrote them."""
    try:
        (version,) = struct.unpack_from(">h", data)
        message, _ = kind.decode(data, min(version, kind.VERSIONS.last), 2)
    except (struct.error, MalformedMessage, KeyError):
        return _plain(data)
    return _fields(message)


def _plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return _fields(value)
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return {"base64": base64.b64encode(value).decode()}
    return value
