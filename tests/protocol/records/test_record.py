"""Reading single records and markers."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage, Truncated, UnsupportedVersion
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    BatchHeader,
    Codec,
    InvalidRecords,
    Record,
    build_batch,
    iter_records,
    read_header,
    read_marker,
    validate_records,
)

from .values import CODECS, SIZE_BYTES_MAX, example_records, with_body


def read_and_validate(batch: bytes | bytearray) -> None:
    """Take a batch the two ways in which its records are read."""
    for _ in iter_records(batch, size_bytes_max=SIZE_BYTES_MAX):
        pass
    validate_records(batch, read_header(batch), size_bytes_max=SIZE_BYTES_MAX)


def test_keys_and_values_are_views_of_the_batch() -> None:
    batch = build_batch([Record(0, 0, b"key", b"value", [("h", b"x")])])
    (record,) = iter_records(memoryview(batch), size_bytes_max=0)
    assert isinstance(record.key, memoryview)
    assert isinstance(record.value, memoryview)
    assert record.value.obj is batch
    batch[batch.index(b"value")] = ord("V")
    assert bytes(record.value) == b"Value"
    assert record.headers == [("h", b"x")]


def test_records_are_decoded_one_at_a_time() -> None:
    batch = build_batch(example_records(3))
    batch[-1] = 99  # the last record's header count
    records = iter_records(batch, size_bytes_max=0)
    assert [next(records).offset, next(records).offset] == [0, 1]
    with pytest.raises(MalformedMessage):
        next(records)


@pytest.mark.parametrize(
    "body",
    [
        b"\x0e\0\0\0\x01\x01\0\0",  # one byte more than its fields
        b"\x0c\0\0\0\x01\x02\0",  # a value that takes the count of headers
        b"\x0c\0\0\0\x01\x04\0\0",  # a value that leads out
        b"\x0d\0\0\0\x01\x01\0",  # a negative size
        b"\x0c\0\0\0\x01\x01\x01",  # a negative count of headers
    ],
)
def test_a_record_that_does_not_fill_its_size_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedMessage):
        list(iter_records(with_body(body, count=1), size_bytes_max=0))


def test_what_follows_the_batch_is_not_read() -> None:
    batch = build_batch(example_records(3))
    records = iter_records(bytes(batch) + b"the next batch", size_bytes_max=0)
    assert list(records) == example_records(3)


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_of_a_batch_is_truncated(codec: Codec) -> None:
    batch = build_batch(example_records(12), codec=codec)
    for size_bytes in range(len(batch)):
        with pytest.raises(Truncated):
            read_and_validate(batch[:size_bytes])


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_of_the_records_is_refused(codec: Codec) -> None:
    body = bytes(build_batch(example_records(12), codec=codec)[HEADER_SIZE_BYTES:])
    read_and_validate(with_body(body, count=12, codec=codec))
    for size_bytes in range(len(body)):
        batch = with_body(body[:size_bytes], count=12, codec=codec)
        with pytest.raises(MalformedMessage):
            list(iter_records(batch, size_bytes_max=SIZE_BYTES_MAX))
        with pytest.raises(MalformedMessage):
            validate_records(batch, read_header(batch), size_bytes_max=SIZE_BYTES_MAX)


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bytes_raise_nothing_else(codec: Codec) -> None:
    batch = bytes(build_batch(example_records(12), codec=codec))
    position = st.integers(16, len(batch) - 1) | st.integers(16, HEADER_SIZE_BYTES + 40)

    @given(st.lists(st.tuples(position, st.integers(1, 255)), min_size=1, max_size=4))
    def check(flips: list[tuple[int, int]]) -> None:
        flipped = bytearray(batch)
        for at, mask in flips:
            flipped[at] ^= mask
        for read in (read_one_by_one, validate):
            with suppress(MalformedMessage):
                read(flipped)

    check()


def read_one_by_one(batch: bytearray) -> None:
    for _ in iter_records(batch, size_bytes_max=SIZE_BYTES_MAX):
        pass


def validate(batch: bytearray) -> None:
    validate_records(batch, read_header(batch), size_bytes_max=SIZE_BYTES_MAX)


def with_count(batch: bytearray, count: int) -> BatchHeader:
    return read_header(batch)._replace(record_count=count, last_offset_delta=count - 1)


@pytest.mark.parametrize("count", [0, 1, 2, 4, 2**31 - 1])
def test_a_lying_count_is_refused(count: int) -> None:
    batch = build_batch(example_records(3))
    header = with_count(batch, count)
    with pytest.raises(MalformedMessage):
        list(iter_records(batch, header, size_bytes_max=0))
    with pytest.raises(InvalidRecords):
        validate_records(batch, header, size_bytes_max=0)


def test_a_negative_count_is_no_record() -> None:
    batch = build_batch([])
    assert list(iter_records(batch, with_count(batch, -5), size_bytes_max=0)) == []


def test_a_count_of_no_headers_may_take_two_bytes() -> None:
    batch = with_body(b"\x0e\0\0\0\x01\x01\x80\0", count=1)
    (record,) = iter_records(batch, size_bytes_max=0)
    assert record.headers == []


def test_a_header_key_that_is_not_utf8_is_read_as_java_does() -> None:
    batch = build_batch([Record(0, 0, None, None, [("hh", None)])])
    batch[-3:-1] = b"\xff\xfe"
    (record,) = iter_records(batch, size_bytes_max=0)
    assert record.headers == [("\ufffd\ufffd", None)]


def test_a_foreign_control_record_is_told_apart() -> None:
    with pytest.raises(UnsupportedVersion):
        read_marker(Record(0, 0, bytes([0, 0, 0, 2]), b""))  # LeaderChange, of KRaft
    with pytest.raises(Truncated):
        read_marker(Record(0, 0, b"\0\0\0", b""))
    with pytest.raises(Truncated):
        read_marker(Record(0, 0, bytes(4), None))
