"""What storage says no with, as Kafka's error codes: the one place that translates."""

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
    """The code with which a client hears of it."""
    if isinstance(error, ProducerError):
        return error.code
    for kind in type(error).__mro__:
        if kind in _CODES:
            return _CODES[kind]
    return ErrorCode.UNKNOWN_SERVER_ERROR
