"""The same values through kafka-python's own codec, in both directions."""

import pytest
from hypothesis import given, settings
from kafka.record.memory_records import MemoryRecords, MemoryRecordsBuilder

from odradek.protocol.records import (
    Codec,
    Record,
    build_batch,
    check_crc,
    iter_records,
    read_header,
    validate_records,
)

from .values import CODECS, SIZE_BYTES_MAX, example_records, record_lists


def theirs_of(records: list[Record], codec: Codec) -> bytes:
    builder = MemoryRecordsBuilder(magic=2, compression_type=int(codec), batch_size=1 << 22)
    builder.set_producer_state(7, 1, 33, False)
    for record in records:
        added = builder.append(record.timestamp, record.key, record.value, record.headers)
        assert added is not None
    builder.close()
    return bytes(builder.buffer())


def assert_they_read(batch: bytes, records: list[Record]) -> None:
    read = MemoryRecords(batch).next_batch()
    assert read.validate_crc()
    assert [
        Record(record.offset, record.timestamp, record.key, record.value, list(record.headers))
        for record in read
    ] == records


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_both_read_what_the_other_wrote(codec: Codec) -> None:
    @settings(max_examples=40)
    @given(record_lists())
    def check(records: list[Record]) -> None:
        ours = bytes(
            build_batch(records, codec=codec, producer_id=7, producer_epoch=1, base_sequence=33)
        )
        assert_they_read(ours, records)
        theirs = theirs_of(records, codec)
        header = read_header(theirs)
        check_crc(theirs, header)
        validate_records(theirs, header, size_bytes_max=SIZE_BYTES_MAX)
        assert list(iter_records(theirs, header, size_bytes_max=SIZE_BYTES_MAX)) == records
        assert header[7:] == read_header(ours)[7:]  # timestamps, producer, count

    # Both import their codec at its first use, which takes longer than an example may.
    assert_they_read(bytes(build_batch(example_records(1), codec=codec)), example_records(1))
    theirs_of(example_records(1), codec)
    check()


@pytest.mark.parametrize("codec", CODECS)
def test_batches_of_several_blocks_agree(codec: Codec) -> None:
    records = [
        Record(record.offset, record.timestamp, record.key, b"%d" % record.offset * 9_000)
        for record in example_records(30)
    ]
    assert_they_read(bytes(build_batch(records, codec=codec)), records)
    theirs = theirs_of(records, codec)
    assert list(iter_records(theirs, size_bytes_max=SIZE_BYTES_MAX)) == records
