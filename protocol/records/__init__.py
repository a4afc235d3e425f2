"""Record batches, format v2: read, check, patch, build."""

from .batch import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    check_crc,
    crc32c,
    iter_batches,
    read_header,
    read_magic,
    set_append_time,
    set_create_time,
    set_offset_and_epoch,
)
from .builder import build_batch, control_batch
from .compression import Codec, compress, decompress
from .recompress import recompressed
from .record import Marker, MarkerType, Record, iter_records, read_marker
from .validate import InvalidRecords, ValidRecords, validate_records

__all__ = [
    "CODEC_MASK",
    "CONTROL",
    "HEADER_SIZE_BYTES",
    "LENGTH_OVERHEAD_BYTES",
    "LOG_APPEND_TIME",
    "MAGIC",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "TRANSACTIONAL",
    "BatchHeader",
    "Codec",
    "InvalidRecords",
    "Marker",
    "MarkerType",
    "Record",
    "ValidRecords",
    "build_batch",
    "check_crc",
    "compress",
    "control_batch",
    "crc32c",
    "decompress",
    "iter_batches",
    "iter_records",
    "read_header",
    "read_magic",
    "read_marker",
    "recompressed",
    "set_append_time",
    "set_create_time",
    "set_offset_and_epoch",
    "validate_records",
]
