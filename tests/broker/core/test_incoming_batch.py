"""What a producer may send for one partition: every code that a batch can get."""

from collections.abc import Mapping

import pytest

from odradek.broker.config import load_config
from odradek.broker.core.incoming_batch import (
    QUICK_BYTES_MAX,
    RECORD_ERRORS_MAX,
    THOROUGH_QUICK_BYTES_MAX,
    RefusedRecords,
    check_batch,
    is_quick,
    read_only_batch,
    recompression,
)
from odradek.broker.settings.compression import Compression
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    BatchHeader,
    Codec,
    Record,
    build_batch,
    compress,
    control_batch,
    iter_records,
    read_header,
)
from odradek.protocol.records.record import MarkerType
from tests.broker.batches import altered, with_records
from tests.support.messages import batch_of

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
INT64_MAX = (1 << 63) - 1
GOOD = batch_of(b"one", b"two", timestamp=WALL_MS)
IDEMPOTENT = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0}


def check(
    batch: bytes | bytearray,
    *,
    version: int = 11,
    configs: Mapping[str, str] | None = None,
    decompressed_bytes_max: int = 1 << 20,
) -> tuple[BatchHeader, bytes]:
    """Both checks; the header and the batch as they go into the log.  Raises: Refused."""
    view = memoryview(bytearray(batch))
    header = read_only_batch(view, version)
    config = load_config(overrides={}).topic_config(configs or {})
    header, _ = check_batch(
        view, header, config, wall_ms=WALL_MS, decompressed_bytes_max=decompressed_bytes_max
    )
    return header, bytes(view)


def test_a_good_batch_is_not_touched() -> None:
    header, batch = check(GOOD)
    assert batch == GOOD
    assert (header.record_count, header.max_timestamp) == (2, WALL_MS)


@pytest.mark.parametrize("codec", list(Codec))
def test_every_codec(codec: Codec) -> None:
    batch = batch_of(*[b"value"] * 100, timestamp=WALL_MS, codec=codec)
    assert check(batch)[1] == batch


FIRST_CHECKS = {
    "nothing": (b"", ErrorCode.INVALID_RECORD),
    "a byte": (b"\0", ErrorCode.INVALID_RECORD),
    "half a header": (GOOD[:40], ErrorCode.INVALID_RECORD),
    "a cut batch": (GOOD[:-1], ErrorCode.INVALID_RECORD),
    "two batches": (GOOD + GOOD, ErrorCode.INVALID_RECORD),
    "more bytes": (GOOD + b"more", ErrorCode.INVALID_RECORD),
    "format 0": (altered(GOOD, magic=0), ErrorCode.INVALID_RECORD),
    "format 1": (altered(GOOD, magic=1), ErrorCode.INVALID_RECORD),
    "format 3": (altered(GOOD, magic=3), ErrorCode.CORRUPT_MESSAGE),
    "format -1": (altered(GOOD, magic=-1), ErrorCode.CORRUPT_MESSAGE),
    "a length that is too short": (altered(GOOD, batch_length=48), ErrorCode.CORRUPT_MESSAGE),
    "a negative length": (altered(GOOD, batch_length=-1), ErrorCode.CORRUPT_MESSAGE),
}
SECOND_CHECKS = {
    "an offset": (altered(GOOD, base_offset=1), ErrorCode.INVALID_RECORD),
    "a wrong checksum": (altered(GOOD, crc=1), ErrorCode.CORRUPT_MESSAGE),
    "no record": (altered(GOOD[:61], batch_length=49, record_count=0), ErrorCode.INVALID_RECORD),
    "a negative count": (altered(GOOD, record_count=-1), ErrorCode.INVALID_RECORD),
    "a larger count": (altered(GOOD, record_count=3), ErrorCode.INVALID_RECORD),
    "a larger count and delta": (
        altered(GOOD, record_count=3, last_offset_delta=2),
        ErrorCode.INVALID_RECORD,
    ),
    "a huge count": (
        altered(GOOD, record_count=1 << 30, last_offset_delta=(1 << 30) - 1),
        ErrorCode.INVALID_RECORD,
    ),
    "a smaller count": (
        altered(GOOD, record_count=1, last_offset_delta=0),
        ErrorCode.INVALID_RECORD,
    ),
    "a wrong delta": (altered(GOOD, last_offset_delta=5), ErrorCode.INVALID_RECORD),
    "codec 5": (altered(GOOD, attributes=5), ErrorCode.INVALID_RECORD),
    "codec 7": (altered(GOOD, attributes=7), ErrorCode.INVALID_RECORD),
    "no gzip": (altered(GOOD, attributes=1), ErrorCode.CORRUPT_MESSAGE),
    "no lz4": (altered(GOOD, attributes=3), ErrorCode.CORRUPT_MESSAGE),
    "control": (
        control_batch(
            MarkerType.COMMIT, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp=0
        ),
        ErrorCode.INVALID_RECORD,
    ),
    "a transaction of nobody": (batch_of(b"v", is_transactional=True), ErrorCode.INVALID_RECORD),
    "an id without a sequence": (
        altered(GOOD, producer_id=7, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "the first id without a sequence": (
        altered(GOOD, producer_id=0, producer_epoch=0),
        ErrorCode.INVALID_RECORD,
    ),
    "an id without an epoch": (
        altered(GOOD, producer_id=7, base_sequence=0),
        ErrorCode.INVALID_RECORD,
    ),
    "bytes after the records": (with_records(GOOD, GOOD[61:] + b"\0"), ErrorCode.INVALID_RECORD),
    "a timestamp that does not fit": (
        altered(
            build_batch([Record(0, 0, None, b""), Record(1, 1, None, b"")]),
            base_timestamp=INT64_MAX,
        ),
        ErrorCode.INVALID_RECORD,
    ),
}


@pytest.mark.parametrize(
    ("batch", "code"),
    [*FIRST_CHECKS.values(), *SECOND_CHECKS.values()],
    ids=[*FIRST_CHECKS, *SECOND_CHECKS],
)
def test_what_is_refused(batch: bytes, code: ErrorCode) -> None:
    with pytest.raises(Refused) as refused:
        check(batch)
    assert refused.value.code == code
    assert refused.value.message


@pytest.mark.parametrize("version", [3, 6])
def test_zstd_before_it_was_allowed(version: int) -> None:
    batch = batch_of(b"a", codec=Codec.ZSTD)
    with pytest.raises(Refused) as refused:
        check(batch, version=version)
    assert refused.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    check(batch, version=7)


def test_sizes() -> None:
    batch = batch_of(b"a" * 1000)
    size_bytes = len(batch)
    for name, code in (
        ("max.message.bytes", ErrorCode.MESSAGE_TOO_LARGE),
        ("segment.bytes", ErrorCode.RECORD_LIST_TOO_LARGE),
    ):
        check(batch, configs={name: str(size_bytes)})
        with pytest.raises(Refused) as refused:
            check(batch, configs={name: str(size_bytes - 1)})
        assert refused.value.code == code


def test_the_order_of_the_checks() -> None:
    """A batch that is wrong in two ways gets the code of the first."""
    limits = {"max.message.bytes": "10"}
    for batch, code in (
        (altered(GOOD, base_offset=1, crc=1), ErrorCode.INVALID_RECORD),
        (altered(GOOD, crc=1), ErrorCode.MESSAGE_TOO_LARGE),
    ):
        with pytest.raises(Refused) as refused:
            check(batch, configs=limits)
        assert refused.value.code == code


def test_a_bomb_is_not_unpacked() -> None:
    bomb = with_records(altered(GOOD, attributes=Codec.ZSTD), compress(Codec.ZSTD, bytes(1 << 24)))
    with pytest.raises(Refused) as refused:
        check(bomb)
    assert refused.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_the_records_at_fault_are_named() -> None:
    records = [Record(n, WALL_MS, None if n % 2 else b"key", b"value") for n in range(6)]
    with pytest.raises(RefusedRecords) as refused:
        check(build_batch(records), configs={"cleanup.policy": "compact"})
    assert refused.value.code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in refused.value.record_errors] == [1, 3, 5]


def test_so_many_are_named() -> None:
    batch = batch_of(*[b""] * (RECORD_ERRORS_MAX + 5))
    with pytest.raises(RefusedRecords) as refused:
        check(batch, configs={"cleanup.policy": "compact"})
    assert len(refused.value.record_errors) == RECORD_ERRORS_MAX


def test_timestamps_too_far_from_now() -> None:
    times = (WALL_MS, WALL_MS - 2 * HOUR_MS, -1, WALL_MS + 2 * HOUR_MS)
    records = [Record(n, timestamp, None, b"") for n, timestamp in enumerate(times)]
    configs = {
        "message.timestamp.before.max.ms": str(HOUR_MS),
        "message.timestamp.after.max.ms": str(HOUR_MS),
    }
    with pytest.raises(RefusedRecords) as refused:
        check(build_batch(records), configs=configs)
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in refused.value.record_errors] == [1, 3]
    check(build_batch([records[0], Record(1, -1, None, b"")]), configs=configs)
    log_append = {**configs, "message.timestamp.type": "LogAppendTime"}
    check(build_batch(records), configs=log_append)


def test_the_largest_timestamp_is_corrected() -> None:
    records = [Record(n, WALL_MS + n, None, b"") for n in range(3)]
    header, batch = check(altered(build_batch(records), max_timestamp=5))
    assert header.max_timestamp == WALL_MS + 2
    assert batch == build_batch(records)


def test_only_the_broker_sets_append_times() -> None:
    flagged = build_batch([Record(0, 5, None, b"")], append_time_ms=99)
    header, batch = check(flagged)
    assert not header.is_log_append_time
    assert header.max_timestamp == 5
    (record,) = iter_records(memoryview(batch), header, size_bytes_max=100)
    assert record.timestamp == 5
    with pytest.raises(RefusedRecords) as refused:
        check(flagged, configs={"message.timestamp.type": "LogAppendTime"})
    assert refused.value.code == ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize(
    ("name", "source", "codec"),
    [
        ("producer", Codec.GZIP, None),
        ("gzip", Codec.GZIP, None),
        ("gzip", Codec.NONE, Codec.GZIP),
        ("uncompressed", Codec.NONE, None),
        ("uncompressed", Codec.LZ4, Codec.NONE),
        ("snappy", Codec.ZSTD, Codec.SNAPPY),
    ],
)
def test_what_is_recompressed(name: str, source: Codec, codec: Codec | None) -> None:
    header, _ = check(batch_of(b"v", codec=source))
    levels = {"compression.gzip.level": "9", "compression.type": name}
    found = recompression(header, load_config(overrides={}).topic_config(levels))
    assert (None if found is None else found.codec) == codec


@pytest.mark.parametrize(
    ("compression", "quick_bytes_max"),
    [
        (Compression(Codec.NONE, None), QUICK_BYTES_MAX),
        (Compression(Codec.SNAPPY, None), QUICK_BYTES_MAX),
        (Compression(Codec.GZIP, -1), QUICK_BYTES_MAX),
        (Compression(Codec.GZIP, 9), QUICK_BYTES_MAX),
        (Compression(Codec.LZ4, 9), QUICK_BYTES_MAX),
        (Compression(Codec.LZ4, 10), THOROUGH_QUICK_BYTES_MAX),
        (Compression(Codec.ZSTD, -131072), QUICK_BYTES_MAX),
        (Compression(Codec.ZSTD, 3), QUICK_BYTES_MAX),
        (Compression(Codec.ZSTD, 22), THOROUGH_QUICK_BYTES_MAX),
    ],
)
def test_what_is_quick(compression: Compression, quick_bytes_max: int) -> None:
    assert is_quick(compression, quick_bytes_max)
    assert not is_quick(compression, quick_bytes_max + 1)


@pytest.mark.parametrize("codec", list(Codec))
def test_the_size_of_the_records_is_told(codec: Codec) -> None:
    batch = memoryview(batch_of(bytes(1000), timestamp=WALL_MS, codec=codec))
    config = load_config(overrides={}).topic_config({})
    _, records_bytes = check_batch(
        batch, read_header(batch), config, wall_ms=WALL_MS, decompressed_bytes_max=1 << 20
    )
    assert records_bytes == len(batch_of(bytes(1000))) - HEADER_SIZE_BYTES
