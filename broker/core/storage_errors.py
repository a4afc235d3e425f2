"""Maps storage errors to Kafka's error codes; no other module does."""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.storage.errors import (
    BatchTooLarge,
    CorruptLog,
    DamagedRecords,
    LogDirFailed,
    OffsetOutOfRange,
    ProducerError,
    StorageError,
)

_CODES: Final[dict[type[StorageError], ErrorCode]] = {
    OffsetOutOfRange: ErrorCode.OFFSET_OUT_OF_RANGE,
    BatchTooLarge: ErrorCode.RECORD_LIST_TOO_LARGE,
    CorruptLog: ErrorCode.KAFKA_STORAGE_ERROR,
    DamagedRecords: ErrorCode.CORRUPT_MESSAGE,
    LogDirFailed: ErrorCode.KAFKA_STORAGE_ERROR,
}


def code_of(error: StorageError) -> ErrorCode:
    """The error code that a client gets."""
    if isinstance(error, ProducerError):
        return error.code
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR
