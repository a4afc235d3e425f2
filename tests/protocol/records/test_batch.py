"""Batch headers: reading, checking, patching."""

import struct
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import (
    BadChecksum,
    BadLength,
    MalformedMessage,
    Truncated,
    UnsupportedVersion,
)
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    Codec,
    Record,
    build_batch,
    check_crc,
    crc32c,
    iter_batches,
    iter_records,
    read_header,
    read_magic,
    set_append_time,
    set_create_time,
    set_offset_and_epoch,
)
from odradek.protocol.records.batch import (
    ATTRIBUTES_POSITION,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)

from .values import SIZE_BYTES_MAX, VECTORS, example_records


def test_crc32c_is_castagnoli() -> None:
    assert crc32c(b"123456789") == 0xE3069283


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_header_is_read_at_any_position_of_any_buffer(
    kind: type[bytes] | type[bytearray] | type[memoryview],
) -> None:
    batch = build_batch(
        example_records(3),
        base_offset=0,
        leader_epoch=4,
        producer_id=2**40,
        producer_epoch=7,
        base_sequence=11,
        is_transactional=True,
    )
    header = read_header(kind(b"junk!" + batch), 5)
    assert header == read_header(batch)
    assert header.size_bytes == len(batch)
    assert (header.base_offset, header.last_offset, header.next_offset) == (0, 2, 3)
    assert (header.partition_leader_epoch, header.record_count, header.codec) == (4, 3, 0)
    assert (header.producer_id, header.producer_epoch) == (2**40, 7)
    assert (header.base_sequence, header.last_sequence) == (11, 13)
    assert header.is_transactional
    assert not (header.is_control or header.is_log_append_time or header.has_delete_horizon)


def test_the_last_sequence_wraps() -> None:
    batch = build_batch(
        example_records(3), producer_id=1, producer_epoch=0, base_sequence=2**31 - 2
    )
    assert read_header(batch).last_sequence == 0
    assert read_header(build_batch(example_records(3))).last_sequence == -1


def test_every_prefix_of_a_header_is_truncated() -> None:
    batch = build_batch(example_records(1))
    for size_bytes in range(HEADER_SIZE_BYTES):
        with pytest.raises(Truncated):
            read_header(batch[:size_bytes])


@pytest.mark.parametrize("batch_length", [48, 0, -1, -(2**31)])
def test_a_length_below_the_header_is_refused(batch_length: int) -> None:
    batch = build_batch(example_records(1))
    batch[8:12] = batch_length.to_bytes(4, "big", signed=True)
    with pytest.raises(BadLength):
        read_header(batch)


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_set_is_told_apart(magic: int) -> None:
    message = (VECTORS / f"java-magic{magic}.batch").read_bytes()
    assert len(message) < HEADER_SIZE_BYTES
    assert read_magic(message) == magic
    for rest in (b"", bytes(100)):
        with pytest.raises(UnsupportedVersion):
            read_header(message + rest)
    with pytest.raises(UnsupportedVersion):
        list(iter_batches(message))
    with pytest.raises(Truncated):
        read_magic(message[:16])


@pytest.mark.parametrize(("byte", "magic"), [(3, 3), (0x7F, 127), (0x80, -128), (0xFF, -1)])
def test_an_unknown_magic_is_refused(byte: int, magic: int) -> None:
    batch = build_batch(example_records(1))
    batch[16] = byte
    assert read_magic(batch) == magic
    with pytest.raises(UnsupportedVersion):
        read_header(batch)


FLIPS = st.tuples(st.integers(0, HEADER_SIZE_BYTES), st.integers(1, 255))


@pytest.mark.slow
@given(st.binary(max_size=200), st.lists(FLIPS, max_size=4))
def test_random_bytes_raise_nothing_else(rest: bytes, flips: list[tuple[int, int]]) -> None:
    """As they are, and after a batch of which some bytes are flipped."""
    batch = build_batch(example_records(2))
    for at, mask in flips:
        batch[at] ^= mask
    for data in (rest, bytes(batch) + rest):
        with suppress(MalformedMessage):
            check_crc(data, read_header(data))
        with suppress(MalformedMessage):
            list(iter_batches(data))


def test_whole_batches_are_yielded_and_the_rest_is_left() -> None:
    first, second = build_batch(example_records(3)), build_batch(example_records(1), base_offset=0)
    log = bytes(first + second)
    expected = [(0, read_header(first)), (len(first), read_header(second))]
    assert list(iter_batches(log)) == expected
    for size_bytes in range(len(first), len(log)):
        assert list(iter_batches(log[:size_bytes])) == expected[:1]
    assert list(iter_batches(b"")) == []


def test_each_flipped_bit_under_the_checksum_is_noticed() -> None:
    batch = build_batch(example_records(4))
    header = read_header(batch)
    check_crc(batch, header)
    check_crc(batch + b"the next batch", header)
    for position in range(21, len(batch)):
        batch[position] ^= 0x10
        with pytest.raises(BadChecksum):
            check_crc(batch, header)
        batch[position] ^= 0x10
    with pytest.raises(Truncated):
        check_crc(batch[:-1], header)


def test_offset_and_epoch_are_set_outside_the_checksum() -> None:
    batch = build_batch(example_records(4))
    before = read_header(batch)
    set_offset_and_epoch(memoryview(batch), 2**40, 6)
    after = read_header(batch)
    assert after == before._replace(base_offset=2**40, partition_leader_epoch=6)
    check_crc(batch, after)


def test_append_time_changes_every_timestamp_and_the_checksum() -> None:
    batch = build_batch(example_records(4))
    before = read_header(batch)
    set_append_time(memoryview(batch), 1_800_000_000_000)
    after = read_header(batch)
    check_crc(batch, after)
    assert after.is_log_append_time
    assert after.base_timestamp == before.base_timestamp
    records = iter_records(batch, size_bytes_max=SIZE_BYTES_MAX)
    assert {record.timestamp for record in records} == {1_800_000_000_000}


def test_a_wrong_maximum_can_be_corrected() -> None:
    batch = build_batch(example_records(4))
    right = bytes(batch)
    struct.pack_into(">q", batch, 35, 5)
    set_create_time(batch, read_header(right).max_timestamp)
    assert batch == right


def test_a_header_of_a_batch_in_the_middle_of_a_segment_needs_no_copy() -> None:
    batch = build_batch([Record(0, 0, None, b"v")])
    view = memoryview(batch)
    header = read_header(view)
    check_crc(view, header)
    view.release()
    batch.clear()  # fails with BufferError if anything still holds a view


def test_create_time_takes_back_a_claim_of_append_time() -> None:
    batch = build_batch([Record(0, 5, None, b"a"), Record(1, 9, None, b"b")], append_time_ms=77)
    set_create_time(batch, 9)
    header = read_header(batch)
    assert not header.is_log_append_time
    assert header.max_timestamp == 9
    check_crc(batch, header)


@pytest.mark.parametrize("change", [set_append_time, set_create_time])
def test_attributes_without_meaning_go_where_a_timestamp_is_set(
    change: Callable[[bytearray, int], None],
) -> None:
    batch = build_batch([Record(0, 1, None, b"v")], codec=Codec.ZSTD, is_transactional=True)
    batch[ATTRIBUTES_POSITION] |= 0x20
    batch[ATTRIBUTES_POSITION + 1] |= 0x80 | DELETE_HORIZON
    change(batch, 5)
    header = read_header(batch)
    own = LOG_APPEND_TIME if change is set_append_time else 0
    assert header.attributes == Codec.ZSTD | TRANSACTIONAL | DELETE_HORIZON | own
    check_crc(batch, header)
