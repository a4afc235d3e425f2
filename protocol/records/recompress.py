"""Rewrites a producer's batch in another codec.

The records are not touched. Kafka encodes each of them again, which changes no byte of a record
that a usual client has written.
Source: LogValidator.buildRecordsAndAssignOffsets of Kafka 3.9.
"""

from typing import Final

from ..primitives import Buffer
from .batch import (
    HEADER,
    HEADER_SIZE_BYTES,
    LENGTH_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
    seal,
)
from .compression import compress
from .record import records_of

_KEPT_ATTRIBUTES: Final = TRANSACTIONAL


def recompressed(
    batch: Buffer, header: BatchHeader, codec: int, level: int | None, *, size_bytes_max: int
) -> bytearray:
    """Return a batch of the same records in `codec`; `header` is the header of `batch`.

    `size_bytes_max` limits the decompressed size of the records. Of the attributes only the mark of
    a transaction is kept: the caller sets the timestamp type.
    Raises: MalformedMessage, ValueError for an unknown codec.
    """
    records = compress(codec, records_of(batch, header, size_bytes_max), level)
    out = bytearray(HEADER_SIZE_BYTES)
    fields = header._replace(
        batch_length=HEADER_SIZE_BYTES - LENGTH_OVERHEAD_BYTES + len(records),
        magic=MAGIC,
        attributes=codec | header.attributes & _KEPT_ATTRIBUTES,
    )
    HEADER.pack_into(out, 0, *fields)
    out += records
    seal(out)
    return out
