"""Building batches, and reading back what was built."""

import pytest
from hypothesis import given, settings

from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    NO_SEQUENCE,
    Codec,
    MarkerType,
    Record,
    build_batch,
    check_crc,
    control_batch,
    iter_records,
    read_header,
    read_marker,
    validate_records,
)

from .values import CODECS, SIZE_BYTES_MAX, example_records, record_lists


def read_back(batch: bytearray) -> list[Record]:
    header = read_header(batch)
    check_crc(batch, header)
    return list(iter_records(batch, header, size_bytes_max=SIZE_BYTES_MAX))


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_records_come_back(codec: Codec) -> None:
    @settings(max_examples=40)
    @given(record_lists(base_offset=2**33))
    def check(records: list[Record]) -> None:
        batch = build_batch(records, codec=codec)
        assert read_back(batch) == records
        header = read_header(batch)
        timestamps = [record.timestamp for record in records]
        assert header.base_timestamp == timestamps[0]
        assert header.codec == codec
        found = validate_records(batch, header, size_bytes_max=SIZE_BYTES_MAX)
        assert found.min_timestamp == min(timestamps)
        assert found.max_timestamp == max(timestamps) == header.max_timestamp
        assert found.offset_delta_of_max_timestamp == timestamps.index(max(timestamps))
        assert found.size_bytes == len(build_batch(records)) - HEADER_SIZE_BYTES

    check()


@pytest.mark.parametrize(
    ("codec", "level"), [(Codec.GZIP, 1), (Codec.GZIP, 9), (Codec.LZ4, 9), (Codec.ZSTD, 19)]
)
def test_a_level_changes_only_the_size(codec: Codec, level: int) -> None:
    records = example_records()
    assert read_back(build_batch(records, codec=codec, level=level)) == records


def test_append_time_stands_for_all() -> None:
    batch = build_batch(example_records(5), append_time_ms=77)
    assert read_header(batch).is_log_append_time
    assert [record.timestamp for record in read_back(batch)] == [77] * 5


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_batch_keeps_its_offsets(codec: Codec) -> None:
    batch = build_batch(
        [], codec=codec, base_offset=5, last_offset=9, producer_id=3, producer_epoch=1
    )
    header = read_header(batch)
    assert read_back(batch) == []
    assert (header.base_offset, header.last_offset, header.record_count) == (5, 9, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_a_batch_may_lose_records_and_keep_its_ends() -> None:
    records = [Record(12, 1, b"a", b"1"), Record(15, 2, b"b", b"2")]
    batch = build_batch(records, base_offset=10, last_offset=19)
    assert read_back(batch) == records
    assert (read_header(batch).base_offset, read_header(batch).last_offset) == (10, 19)


def test_offsets_must_rise_inside_the_batch() -> None:
    first, second = Record(4, 0, None, None), Record(5, 0, None, None)
    for records, base_offset, last_offset in (
        ([second, first], None, None),
        ([first, first], None, None),
        ([first, second], 5, None),
        ([first, second], None, 4),
    ):
        with pytest.raises(ValueError, match="out of order or out of its batch"):
            build_batch(records, base_offset=base_offset, last_offset=last_offset)
    with pytest.raises(ValueError, match="not a valid Codec"):
        build_batch([first], codec=5)


@pytest.mark.parametrize("marker", list(MarkerType))
def test_a_marker_says_how_the_transaction_ended(marker: MarkerType) -> None:
    batch = control_batch(
        marker,
        producer_id=9,
        producer_epoch=2,
        coordinator_epoch=6,
        timestamp=1_700_000_000_000,
        base_offset=41,
        leader_epoch=3,
    )
    header = read_header(batch)
    assert header.attributes == 0x30
    assert (header.base_offset, header.record_count) == (41, 1)
    assert (header.producer_id, header.producer_epoch) == (9, 2)
    assert header.base_sequence == NO_SEQUENCE
    (record,) = read_back(batch)
    assert read_marker(record) == (marker, 6)
