"""The records of `__transaction_state`: encodes and decodes keys and values.

A key is an int16 version, 0, and the transactional id. A value is an int16 version and the state of
that id; it is null (a tombstone) if the id has expired.

Source: TransactionLogKey.json, TransactionLogValue.json in the transaction-coordinator jar of
Apache Kafka 4.3.1.
"""

import struct
from typing import Final, NamedTuple

from .errors import MalformedMessage, UnsupportedVersion
from .schema import Message, Struct, array, int8, int16, int32, int64, string

_INT16: Final = struct.Struct(">h")
_STATUS_LAST: Final = 5
"""CompleteAbort; the states after it are never written."""


class TransactionLogKey(Message, api_key=0, versions="0", flexible="none"):
    """A transactional id."""

    transactional_id: str = string("0")


class PartitionsSchema(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partition_ids: list[int] = array("int32", "0+")


class TransactionLogValue(Message, api_key=0, versions="0-1", flexible="1+"):
    """The state of a transactional id; the partitions are null in the state Empty."""

    producer_id: int = int64("0+")
    previous_producer_id: int = int64("1+", tag=0, default=-1)
    next_producer_id: int = int64("1+", tag=1, default=-1)
    producer_epoch: int = int16("0+")
    next_producer_epoch: int = int16("1+", tag=3, default=-1)
    transaction_timeout_ms: int = int32("0+")
    transaction_status: int = int8("0+")
    transaction_partitions: list[PartitionsSchema] | None = array(
        PartitionsSchema, "0+", nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64("0+")
    transaction_start_timestamp_ms: int = int64("0+")
    client_transaction_version: int = int16("1+", tag=2, default=0)


class TransactionRecord(NamedTuple):
    """The state of a transactional id; without a value, the id has expired."""

    transactional_id: str
    value: TransactionLogValue | None
    version: int = 0
    """Of the value: 1 has tagged fields, and is written with transaction.version=2."""


def encode_record(record: TransactionRecord) -> tuple[bytes, bytes | None]:
    """Key and value as Kafka writes them."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    key_bytes = _INT16.pack(0) + key.encode(0)
    if record.value is None:
        return key_bytes, None
    return key_bytes, _INT16.pack(record.version) + record.value.encode(record.version)


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """Decode a record; None if its type is unknown, because a newer broker wrote it.

    Raises: MalformedMessage.
    """
    key_version, body = _split(key)
    if key_version not in TransactionLogKey.VERSIONS:
        return None
    decoded_key, end = TransactionLogKey.decode(body, key_version)
    if end != len(body):
        raise MalformedMessage(f"{len(body) - end} bytes behind a transactional id")
    if value is None:
        return TransactionRecord(decoded_key.transactional_id, None)
    version, body = _split(value)
    if version not in TransactionLogValue.VERSIONS:
        raise UnsupportedVersion(f"TransactionLogValue v{version}")
    decoded, _ = TransactionLogValue.decode(body, version)
    if not 0 <= decoded.transaction_status <= _STATUS_LAST:
        raise MalformedMessage(f"transaction status {decoded.transaction_status}")
    if decoded.producer_id < 0 or decoded.producer_epoch < 0:
        raise MalformedMessage(f"producer {decoded.producer_id} {decoded.producer_epoch}")
    return TransactionRecord(decoded_key.transactional_id, decoded, version)


def _split(data: bytes) -> tuple[int, bytes]:
    if len(data) < _INT16.size:
        raise MalformedMessage(f"{len(data)} bytes where an int16 should begin")
    return _INT16.unpack_from(data)[0], data[_INT16.size :]
