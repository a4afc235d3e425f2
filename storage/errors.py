"""What the log, the disk and a data directory can say no with."""

from odradek.protocol.errors import ErrorCode


class StorageError(Exception):
    """Base of everything that this room raises on purpose."""


class OffsetOutOfRange(StorageError):
    """The offset lies below the log start or above the log end."""

    def __init__(self, offset: int, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is outside [{log_start_offset}, {log_end_offset}]")
        self.offset = offset
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset


class BatchTooLarge(StorageError):
    """One append is larger than a whole segment may be."""


class CorruptLog(StorageError):
    """A segment holds bytes that are not whole, valid, ascending batches."""


class DamagedRecords(CorruptLog):
    """The offset lies in a range of a segment whose bytes are known to be damaged."""


class UnsupportedFormat(StorageError):
    """A segment holds valid messages of a format before batch v2, which must not be cut away."""


class LogDirFailed(StorageError):
    """A read, write or fsync failed; `__cause__` is the OSError.

    The directory must go offline: a failed fsync may have lost pages that a second one would report
    as written.  `path` is the file or directory that failed, if it is known.
    """

    def __init__(self, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.path = path


class DiskFull(LogDirFailed):
    """A write failed for want of space; it has been undone and nothing on disk is doubtful."""


class DataDirError(StorageError):
    """A data directory cannot be used; the message is one sentence for the operator."""


class ProducerError(StorageError):
    """An idempotent append is refused; carries Kafka's error code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
