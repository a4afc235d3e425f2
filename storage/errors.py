"""The exceptions of this package."""

from odradek.protocol.errors import ErrorCode


class StorageError(Exception):
    """Base of all exceptions that this package raises on purpose."""


class OffsetOutOfRange(StorageError):
    """The offset is below the log start or above the log end (or the high watermark)."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class BatchTooLarge(StorageError):
    """An append does not fit into one segment."""


class CorruptLog(StorageError):
    """A segment or an index is corrupt: for example, bytes that are not whole, valid batches."""


class DamagedRecords(CorruptLog):
    """The offset is in a range of a segment that is known to be damaged."""


class UnsupportedFormat(StorageError):
    """A segment has valid messages of a format before batch v2, which must not be cut off."""


class LogDirFailed(StorageError):
    """A read, write or fsync failed; `__cause__` is the OSError.

    The directory must go offline: a failed fsync may have lost pages that a second one would report
    as written.  `path` is the file or directory that failed, if known.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DiskFull(LogDirFailed):
    """A write failed for lack of space; it was undone, and nothing on disk is in doubt."""


class DataDirError(StorageError):
    """A data directory can't be used; the message is one sentence for the operator."""


class ProducerError(StorageError):
    """An idempotent append is rejected; `code` is Kafka's error code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
