"""The records of `__consumer_offsets`: encodes and decodes keys and values.

A key is an int16 record type and the fields of that type. A value is an int16 version and the
fields of that version; it is null (a tombstone) if the object of the key was deleted. Types 0 and 1
are both committed offsets; the oldest brokers wrote 0.

Source: the coordinator records in the group-coordinator jar of Apache Kafka 4.3.1.
"""

import struct
from typing import Final, NamedTuple

from ..errors import MalformedMessage, UnsupportedVersion
from ..schema import Message
from . import classic, consumer

_INT16: Final = struct.Struct(">h")

# The versions in which Kafka writes values; 0 for all others.
_WRITTEN: Final[dict[type[Message], int]] = {
    classic.OffsetCommitValue: 3,
    classic.GroupMetadataValue: 3,
}

_MODULES: Final = (classic, consumer)


def _messages(suffix: str) -> dict[int, type[Message]]:
    return {
        found.API_KEY: found
        for module in _MODULES
        for name, found in vars(module).items()
        if name.endswith(suffix) and issubclass(found, Message)
    }


_KEYS: Final = _messages("Key")
_VALUES: Final = _messages("Value")
_KEYS[0], _VALUES[0] = classic.OffsetCommitKey, classic.OffsetCommitValue


class GroupRecord(NamedTuple):
    """The state of a group, a member or an offset; without a value, it was deleted."""

    key: Message
    value: Message | None


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them."""
    key = _INT16.pack(record.key.API_KEY) + record.key.encode(0)
    if record.value is None:
        return key, None
    version = _version_to_write(record.value)
    return key, _INT16.pack(version) + record.value.encode(version)


def _version_to_write(value: Message) -> int:
    own_end = isinstance(value, classic.OffsetCommitValue) and value.expire_timestamp != -1
    return 1 if own_end else _WRITTEN.get(type(value), 0)  # only v1 has this field


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """Decode a record; None if its type is unknown, because a newer broker wrote it.

    Raises: MalformedMessage.
    """
    record_type, body = _split(key)
    key_class = _KEYS.get(record_type)
    if key_class is None:
        return None
    decoded_key, end = key_class.decode(body, 0)
    if end != len(body):
        raise MalformedMessage(f"{len(body) - end} bytes behind a key of type {record_type}")
    if value is None:
        return GroupRecord(decoded_key, None)
    version, body = _split(value)
    value_class = _VALUES[record_type]
    if version not in value_class.VERSIONS:
        raise UnsupportedVersion(f"{value_class.__name__} v{version}")
    return GroupRecord(decoded_key, value_class.decode(body, version)[0])


def _split(data: bytes) -> tuple[int, bytes]:
    if len(data) < _INT16.size:
        raise MalformedMessage(f"{len(data)} bytes where an int16 should begin")
    return _INT16.unpack_from(data)[0], data[_INT16.size :]
