"""Validation of what a producer sent for one partition, before it enters the log.

The order of the checks is Kafka's, since a batch with two faults must get Kafka's code: one batch
of format v2, its size, its checksum, its counts and flags, then every record.

Source: the behaviour of ProduceRequest.validateRecords, UnifiedLog and LogValidator of Kafka 3.9.
"""

from typing import Final

from odradek.protocol.errors import (
    BadChecksum,
    BadLength,
    ErrorCode,
    MalformedMessage,
    Refused,
    Truncated,
    UnsupportedVersion,
)
from odradek.protocol.primitives import Buffer
from odradek.protocol.records import (
    CODEC_MASK,
    CONTROL,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    InvalidRecords,
    check_crc,
    iter_records,
    read_header,
    recompressed,
    set_create_time,
    validate_records,
)

from ..settings.compression import Compression
from ..settings.topic_config import TopicConfig

RECORD_ERRORS_MAX: Final = 1000
CHECKED_AT_ONCE_RECORDS_MAX: Final = 10_000
CHECKED_AT_ONCE_BYTES_MAX: Final = 4 << 20
"""Of the decompressed records: to check so many takes 10 ms."""
QUICK_BYTES_MAX: Final = 64 << 10
THOROUGH_QUICK_BYTES_MAX: Final = 4 << 10
_QUICK_LEVEL_MAX: Final = {Codec.LZ4: 9, Codec.ZSTD: 5}  # above it is ten times the work and more
_ZSTD_VERSION_FIRST: Final = 7  # of Produce
_LENGTH_POSITION: Final = 8
_MAGIC_POSITION: Final = 16
_OLDEST_LENGTH_MIN: Final = 14  # of a message in the formats before batches
_TO_CHECK: Final = TRANSACTIONAL | CONTROL


class TakesLong(Exception):
    """To check a batch would hold up everything else: a thread has to do it."""


class RefusedRecords(Refused):
    """Refused because of single records, each given as (index in the batch, message)."""

    def __init__(self, code: ErrorCode, message: str, errors: list[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = errors[:RECORD_ERRORS_MAX]


def read_only_batch(records: memoryview | None, version: int) -> BatchHeader:
    """The header of the one batch that a Produce of this version may carry for a partition.

    Raises: Refused (INVALID_RECORD, CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE).
    """
    if records is None or not records:
        raise Refused(ErrorCode.INVALID_RECORD, "there is no record batch for the partition")
    try:
        header = read_header(records)
    except (Truncated, UnsupportedVersion, BadLength) as error:
        raise Refused(_code_of_broken_header(records), str(error)) from None
    if header.batch_length + LENGTH_OVERHEAD_BYTES != len(records):
        more = header.size_bytes < len(records)
        message = "there is more than one batch" if more else "the batch is cut off"
        raise Refused(ErrorCode.INVALID_RECORD, f"{message} for the partition")
    if version < _ZSTD_VERSION_FIRST and header.codec == Codec.ZSTD:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd may be sent from Produce v{_ZSTD_VERSION_FIRST} on, not in v{version}",
        )
    return header


def _code_of_broken_header(records: memoryview) -> ErrorCode:
    """The code for a broken header.

    To Kafka, data that is too short or too old is not a batch, and data that cannot be one is
    corrupt.
    """
    if len(records) < LENGTH_OVERHEAD_BYTES:
        return ErrorCode.INVALID_RECORD
    length = int.from_bytes(records[_LENGTH_POSITION:LENGTH_OVERHEAD_BYTES], "big", signed=True)
    if length < _OLDEST_LENGTH_MIN:
        return ErrorCode.CORRUPT_MESSAGE
    if len(records) <= _MAGIC_POSITION:
        return ErrorCode.INVALID_RECORD
    magic = records[_MAGIC_POSITION]
    if magic > MAGIC:
        return ErrorCode.CORRUPT_MESSAGE
    whole = len(records) >= LENGTH_OVERHEAD_BYTES + length
    return ErrorCode.CORRUPT_MESSAGE if magic == MAGIC and whole else ErrorCode.INVALID_RECORD


def check_batch(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    *,
    wall_ms: int,
    decompressed_bytes_max: int,
    may_take_long: bool = True,
) -> tuple[BatchHeader, int]:
    """Check a batch, correct its largest timestamp, and return the resulting header.

    Also return the size of its records, decompressed.
    Raises: Refused, RefusedRecords; TakesLong, unless it `may_take_long`.
    """
    size_bytes, bytes_max = len(batch), decompressed_bytes_max
    if not may_take_long:
        # A megabyte may contain millions of records, and tell so only when it is decompressed.
        if header.record_count > CHECKED_AT_ONCE_RECORDS_MAX:
            raise TakesLong
        if header.attributes & CODEC_MASK:
            bytes_max = min(decompressed_bytes_max, CHECKED_AT_ONCE_BYTES_MAX)
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}, not 0")
    if size_bytes > config.max_message_bytes:
        raise _larger_than_allowed(size_bytes, config)
    try:
        check_crc(batch, header)
    except (BadChecksum, Truncated) as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if size_bytes > config.segment_bytes and recompression(header, config) is None:
        raise _larger_than_a_segment(size_bytes, config)
    if header.attributes & _TO_CHECK or header.producer_id >= 0:
        _check_producer(header)
    try:
        found = validate_records(
            batch,
            header,
            size_bytes_max=bytes_max,
            keys_required=config.is_compacted,
        )
    except InvalidRecords as error:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, str(error), error.errors) from None
    except UnsupportedVersion as error:  # an undefined codec number
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    except BadLength as error:
        if bytes_max < decompressed_bytes_max:
            raise TakesLong from None
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except MalformedMessage as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if config.is_log_append_time:
        if header.attributes & LOG_APPEND_TIME:
            _refuse_append_time(header.record_count)
        return header, found.size_bytes  # the log sets the time when it appends
    earliest = wall_ms - config.message_timestamp_before_max_ms
    latest = wall_ms + config.message_timestamp_after_max_ms
    if found.min_timestamp < earliest or found.max_timestamp > latest:
        _check_timestamps(batch, header, earliest, latest, decompressed_bytes_max)
    max_timestamp = max(found.max_timestamp, NO_TIMESTAMP)
    if header.max_timestamp != max_timestamp or header.attributes & LOG_APPEND_TIME:
        set_create_time(batch, max_timestamp)
        return read_header(batch), found.size_bytes
    return header, found.size_bytes


def recompression(header: BatchHeader, config: TopicConfig) -> Compression | None:
    """How the topic stores the batch, if its codec is another one; the level alone changes nothing.

    Source: LogValidator of Kafka 3.9.
    """
    compression = config.compression
    is_as_sent = compression is None or compression.codec == header.codec
    return None if is_as_sent else compression


def is_quick(compression: Compression, records_bytes: int) -> bool:
    """Whether compressing so many bytes may hold up everything else: it takes 1 ms at most."""
    codec, level = compression
    if level is not None and level > _QUICK_LEVEL_MAX.get(codec, level):
        return records_bytes <= THOROUGH_QUICK_BYTES_MAX
    return records_bytes <= QUICK_BYTES_MAX


def recompress(
    batch: Buffer, header: BatchHeader, compression: Compression, decompressed_bytes_max: int
) -> tuple[memoryview, BatchHeader]:
    """A checked batch as the topic stores it, and its header.  It may be done by a thread."""
    codec, level = compression
    stored = recompressed(batch, header, codec, level, size_bytes_max=decompressed_bytes_max)
    return memoryview(stored), read_header(stored)


def check_recompressed(header: BatchHeader, config: TopicConfig) -> None:
    """Check the size that a batch has now.

    Raises: Refused (MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE).
    """
    if header.size_bytes > config.max_message_bytes:
        raise _larger_than_allowed(header.size_bytes, config)
    if header.size_bytes > config.segment_bytes:
        raise _larger_than_a_segment(header.size_bytes, config)


def _larger_than_allowed(size_bytes: int, config: TopicConfig) -> Refused:
    return Refused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size_bytes} bytes, allowed are {config.max_message_bytes}",
    )


def _larger_than_a_segment(size_bytes: int, config: TopicConfig) -> Refused:
    return Refused(
        ErrorCode.RECORD_LIST_TOO_LARGE,
        f"the batch has {size_bytes} bytes, a segment {config.segment_bytes}",
    )


def _refuse_append_time(record_count: int) -> None:
    """Refuse log-append-time: only the broker may set it.  Raises: RefusedRecords."""
    message = "a producer may not set the timestamp type to LogAppendTime"
    errors = [(index, message) for index in range(min(record_count, RECORD_ERRORS_MAX))]
    raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, errors)


def _check_producer(header: BatchHeader) -> None:
    if header.is_control:
        raise Refused(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.is_transactional and header.producer_id < 0:
        raise Refused(ErrorCode.INVALID_RECORD, "a transactional batch needs a producer id")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}",
        )


def _check_timestamps(
    batch: memoryview, header: BatchHeader, earliest: int, latest: int, size_bytes_max: int
) -> None:
    """Report records whose timestamps are too far from now; one without a timestamp (-1) passes."""
    errors = []
    for index, record in enumerate(iter_records(batch, header, size_bytes_max=size_bytes_max)):
        if record.timestamp != -1 and not earliest <= record.timestamp <= latest:
            message = f"timestamp {record.timestamp} is outside [{earliest}, {latest}]"
            errors.append((index, message))
    if errors:
        message = "one or more records have a timestamp too far from the broker's clock"
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, errors)
