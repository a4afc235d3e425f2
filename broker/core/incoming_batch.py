"""What a producer sent for one partition, checked before it enters the log.

The order of the checks is Kafka's, since a batch that is wrong in two ways must get its code:
one batch of format v2, its size, its checksum, its counts and flags, then every record.

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
from odradek.protocol.records import (
    CONTROL,
    TRANSACTIONAL,
    BatchHeader,
    Codec,
    InvalidRecords,
    check_crc,
    iter_records,
    read_header,
    set_max_timestamp,
    validate_records,
)

from ..topic_settings import TopicConfig

RECORD_ERRORS_MAX: Final = 1000
_ZSTD_VERSION_FIRST: Final = 7  # of Produce
_NOT_FOR_CLIENTS: Final = TRANSACTIONAL | CONTROL


class RefusedRecords(Refused):
    """Refused because of single records: (index in the batch, message) each."""

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
    except (Truncated, UnsupportedVersion) as error:
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    except BadLength as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if header.size_bytes != len(records):
        more = header.size_bytes < len(records)
        message = "there is more than one batch" if more else "the batch is cut off"
        raise Refused(ErrorCode.INVALID_RECORD, f"{message} for the partition")
    if version < _ZSTD_VERSION_FIRST and header.codec == Codec.ZSTD:
        raise Refused(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd may be sent from Produce v{_ZSTD_VERSION_FIRST} on, not in v{version}",
        )
    return header


def check_batch(
    batch: memoryview,
    header: BatchHeader,
    config: TopicConfig,
    *,
    wall_ms: int,
    decompressed_bytes_max: int,
) -> BatchHeader:
    """Check a batch, correct its largest timestamp, return its header as it then is.

    Raises: Refused, RefusedRecords.
    """
    size_bytes = len(batch)
    if header.base_offset != 0:
        raise Refused(ErrorCode.INVALID_RECORD, f"the base offset is {header.base_offset}, not 0")
    if size_bytes > config.max_message_bytes:
        raise Refused(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the batch has {size_bytes} bytes, allowed are {config.max_message_bytes}",
        )
    try:
        check_crc(batch, header)
    except (BadChecksum, Truncated) as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if size_bytes > config.segment_bytes:
        raise Refused(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the batch has {size_bytes} bytes, a segment {config.segment_bytes}",
        )
    if header.attributes & _NOT_FOR_CLIENTS or header.producer_id >= 0:
        _check_producer(header)
    try:
        timestamps = validate_records(
            batch,
            header,
            size_bytes_max=decompressed_bytes_max,
            keys_required=config.is_compacted,
        )
    except InvalidRecords as error:
        raise RefusedRecords(ErrorCode.INVALID_RECORD, str(error), error.errors) from None
    except UnsupportedVersion as error:  # a codec number that means nothing
        raise Refused(ErrorCode.INVALID_RECORD, str(error)) from None
    except BadLength as error:
        raise Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except MalformedMessage as error:
        raise Refused(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    if config.is_log_append_time:
        return header  # the log sets the time when it appends
    earliest = wall_ms - config.message_timestamp_before_max_ms
    latest = wall_ms + config.message_timestamp_after_max_ms
    if timestamps.min_timestamp < earliest or timestamps.max_timestamp > latest:
        _check_timestamps(batch, header, earliest, latest, decompressed_bytes_max)
    if header.max_timestamp != timestamps.max_timestamp or header.is_log_append_time:
        set_max_timestamp(batch, timestamps.max_timestamp)
        return read_header(batch)
    return header


def _check_producer(header: BatchHeader) -> None:
    if header.is_control:
        raise Refused(ErrorCode.INVALID_RECORD, "clients may not write control records")
    if header.is_transactional:
        raise Refused(ErrorCode.INVALID_RECORD, "transactions are not served")
    if header.producer_id >= 0 and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise Refused(
            ErrorCode.INVALID_RECORD,
            f"producer {header.producer_id} sent epoch {header.producer_epoch} "
            f"and sequence {header.base_sequence}",
        )


def _check_timestamps(
    batch: memoryview, header: BatchHeader, earliest: int, latest: int, size_bytes_max: int
) -> None:
    """Name the records whose timestamps are too far from now; a record without one (-1) passes."""
    errors = []
    for index, record in enumerate(iter_records(batch, header, size_bytes_max=size_bytes_max)):
        if record.timestamp != -1 and not earliest <= record.timestamp <= latest:
            message = f"timestamp {record.timestamp} is outside [{earliest}, {latest}]"
            errors.append((index, message))
    if errors:
        message = "one or more records have a timestamp too far from the broker's clock"
        raise RefusedRecords(ErrorCode.INVALID_TIMESTAMP, message, errors)
