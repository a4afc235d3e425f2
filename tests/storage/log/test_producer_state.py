"""Idempotence by Kafka 3.9's rules, and its snapshots."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import (
    TRANSACTIONAL,
    BatchHeader,
    Marker,
    MarkerType,
    control_batch,
    read_header,
)
from odradek.storage.errors import ProducerError
from odradek.storage.log.producer_snapshot import decode_snapshot, encode_snapshot
from odradek.storage.log.producer_state import KeptBatch, ProducerEntry, ProducerState

from ..support import batch_of

INT32_MAX = (1 << 31) - 1


def header_of(base_sequence: int, count: int = 1, *, producer_epoch: int = 0) -> BatchHeader:
    return read_header(
        batch_of(
            [b"v"] * count,
            timestamp=1000 + base_sequence,
            producer_id=7,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


class Partition:
    """A producer state with the offsets that a log would give."""

    def __init__(self) -> None:
        self.state = ProducerState()
        self.end = 100

    def append(self, header: BatchHeader) -> int:
        assert self.state.check(header) is None
        base_offset = self.end
        self.state.update(header, base_offset, header.max_timestamp)
        self.end = base_offset + header.last_offset_delta + 1
        return base_offset

    def refusal(self, header: BatchHeader) -> ErrorCode:
        with pytest.raises(ProducerError) as error:
            self.state.check(header)
        return error.value.code


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Partition().append(header_of(41)) == 100


def test_the_last_ten_batches_are_answered_again() -> None:
    """Five that an old leader has not answered, and five that the new one has taken since."""
    partition = Partition()
    offsets = [partition.append(header_of(2 * number, 2)) for number in range(12)]
    for number in range(2, 12):
        duplicate = partition.state.check(header_of(2 * number, 2))
        assert duplicate == (offsets[number], offsets[number] + 1, 1000 + 2 * number)
    for number in range(2):
        refusal = partition.refusal(header_of(2 * number, 2))
        assert refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_batch_that_only_overlaps_an_earlier_one_is_no_duplicate() -> None:
    partition = Partition()
    partition.append(header_of(0, 4))
    for header in (header_of(0, 3), header_of(1, 3), header_of(3), header_of(5)):
        assert partition.refusal(header) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append(header_of(4))


def test_sequences_wrap_around() -> None:
    partition = Partition()
    partition.append(header_of(INT32_MAX - 1, 4))  # 2^31-2, 2^31-1, 0, 1
    assert partition.refusal(header_of(3)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.state.check(header_of(INT32_MAX - 1, 4)) is not None
    partition.append(header_of(2))
    other = Partition()
    other.append(header_of(INT32_MAX))
    other.append(header_of(0))


def test_a_new_epoch_begins_with_sequence_zero() -> None:
    partition = Partition()
    partition.append(header_of(0, 5))
    refusal = partition.refusal(header_of(5, producer_epoch=1))
    assert refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append(header_of(0, 5, producer_epoch=1))
    assert partition.refusal(header_of(5)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert partition.refusal(header_of(0, 5)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_only_an_older_epoch_is_refused_to_a_coordinator() -> None:
    partition = Partition()
    partition.append(header_of(0, producer_epoch=2))
    partition.state.check_epoch(7, 2)
    partition.state.check_epoch(7, 3)
    partition.state.check_epoch(8, 0)
    with pytest.raises(ProducerError) as error:
        partition.state.check_epoch(7, 1)
    assert error.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def marker_of(producer_epoch: int, coordinator_epoch: int = 3) -> bytearray:
    return control_batch(
        MarkerType.ABORT,
        producer_id=7,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=5000,
    )


def transactional(header: BatchHeader) -> BatchHeader:
    return header._replace(attributes=TRANSACTIONAL)


def test_a_marker_ends_a_transaction_and_keeps_the_sequences() -> None:
    partition = Partition()
    header = transactional(header_of(0, 5))
    partition.append(header)
    assert partition.state.transactions.first_open_offset() == 100
    marker = marker_of(producer_epoch=0)
    partition.state.note(read_header(marker), marker, 105, 5000)
    assert partition.state.transactions.first_open_offset() is None
    entry = partition.state.entry(7)
    assert entry is not None
    assert (entry.coordinator_epoch, entry.last_timestamp, entry.last_sequence) == (3, 5000, 4)
    partition.append(header_of(5))


def test_a_marker_of_a_new_epoch_forgets_the_sequences() -> None:
    partition = Partition()
    partition.append(header_of(0, 5))
    marker = marker_of(producer_epoch=1)
    partition.state.note(read_header(marker), marker, 105, 5000)
    refusal = partition.refusal(header_of(5, producer_epoch=1))
    assert refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append(header_of(0, producer_epoch=1))


def test_transactional_batches_are_checked_as_idempotent_ones() -> None:
    partition = Partition()
    partition.append(transactional(header_of(0, 2)))
    duplicate = partition.state.check(transactional(header_of(0, 2)))
    assert duplicate == (100, 101, 1000)
    refusal = partition.refusal(transactional(header_of(3)))
    assert refusal is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    partition.append(transactional(header_of(2)))
    partition.append(transactional(header_of(0, producer_epoch=1)))
    refusal = partition.refusal(transactional(header_of(1)))
    assert refusal is ErrorCode.INVALID_PRODUCER_EPOCH
    entry = partition.state.entry(7)
    assert entry is not None
    assert entry.transaction_first_offset == 100, "a new epoch alone ends no transaction"


def test_a_producer_writes_nothing_else_while_its_transaction_is_open() -> None:
    partition = Partition()
    partition.append(transactional(header_of(0)))
    assert partition.refusal(header_of(1)) is ErrorCode.INVALID_TXN_STATE
    assert partition.refusal(header_of(0, producer_epoch=1)) is ErrorCode.INVALID_TXN_STATE
    assert partition.refusal(header_of(2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert partition.state.check(header_of(0)) is not None, "a duplicate is none of it"
    marker = marker_of(producer_epoch=0)
    partition.state.note(read_header(marker), marker, 101, 5000)
    partition.append(header_of(1))


def test_an_outdated_marker_is_refused() -> None:
    partition = Partition()

    def refusal(producer_epoch: int, coordinator_epoch: int) -> ErrorCode:
        header = read_header(marker_of(producer_epoch))
        try:
            partition.state.check_marker(header, Marker(MarkerType.ABORT, coordinator_epoch))
        except ProducerError as error:
            return error.code
        return ErrorCode.NONE

    assert refusal(0, 0) is ErrorCode.NONE, "the producer wrote nothing here"
    partition.append(transactional(header_of(0, producer_epoch=1)))
    assert refusal(1, 0) is ErrorCode.NONE
    marker = marker_of(producer_epoch=2, coordinator_epoch=3)
    partition.state.note(read_header(marker), marker, 101, 5000)
    assert refusal(2, 3) is ErrorCode.NONE, "it may come twice"
    assert refusal(3, 4) is ErrorCode.NONE
    assert refusal(2, 2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(1, 3) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(1, 2) is ErrorCode.INVALID_PRODUCER_EPOCH, "it is looked at first"


def test_a_marker_of_version_2_has_a_later_epoch_than_what_it_ends() -> None:
    partition = Partition()

    def refusal(producer_epoch: int, transaction_version: int = 2) -> ErrorCode:
        header = read_header(marker_of(producer_epoch))
        marker = Marker(MarkerType.ABORT, 3)
        try:
            partition.state.check_marker(header, marker, transaction_version)
        except ProducerError as error:
            return error.code
        return ErrorCode.NONE

    partition.append(transactional(header_of(0, producer_epoch=1)))
    assert refusal(1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(1, 0) is ErrorCode.NONE
    assert refusal(2) is ErrorCode.NONE
    marker = marker_of(producer_epoch=2)
    partition.state.note(read_header(marker), marker, 101, 5000)
    assert refusal(2) is ErrorCode.NONE, "it may come twice"
    partition.append(transactional(header_of(0, producer_epoch=2)))
    assert refusal(2) is ErrorCode.INVALID_PRODUCER_EPOCH, "it belongs to the transaction before"


def test_silent_producers_expire_but_not_in_a_transaction() -> None:
    partition = Partition()
    partition.append(header_of(0))
    assert partition.state.expire(1999, producer_id_expiration_ms=1000) == 0
    assert partition.state.expire(2000, producer_id_expiration_ms=1000) == 1
    assert len(partition.state) == 0
    partition.append(transactional(header_of(0)))
    assert partition.state.expire(1 << 60, producer_id_expiration_ms=1000) == 0


entries = st.builds(
    ProducerEntry,
    st.integers(0, (1 << 63) - 1),
    st.integers(0, (1 << 15) - 1),
    batches=st.lists(
        st.builds(
            KeptBatch,
            st.integers(0, INT32_MAX),
            st.integers(0, (1 << 62)),
            st.integers(0, INT32_MAX),
            st.integers(-1, (1 << 62)),
        ),
        max_size=5,
    ),
    last_timestamp=st.integers(-1, 1 << 62),
    coordinator_epoch=st.integers(-1, INT32_MAX),
    transaction_first_offset=st.integers(-1, 1 << 62),
)


@pytest.mark.slow
@given(st.lists(entries, max_size=8, unique_by=lambda entry: entry.producer_id))
def test_a_snapshot_keeps_the_newest_batch_of_each_producer(given: list[ProducerEntry]) -> None:
    state = decode_snapshot(encode_snapshot(ProducerState(given)))
    for entry, expected in zip(state.entries(), given, strict=True):
        assert entry.producer_id == expected.producer_id
        assert entry.producer_epoch == expected.producer_epoch
        if expected.batches:
            assert entry.batches[0][:3] == expected.batches[-1][:3]
        assert entry.last_timestamp == expected.last_timestamp
        assert entry.transaction_first_offset == expected.transaction_first_offset
    assert encode_snapshot(state) == encode_snapshot(ProducerState(given))


def test_a_damaged_snapshot_is_noticed() -> None:
    partition = Partition()
    partition.append(header_of(0))
    data = encode_snapshot(partition.state)
    for size_bytes in range(len(data)):
        with pytest.raises(ValueError, match=r"snapshot|entries|version"):
            decode_snapshot(data[:size_bytes])
    chance = random.Random(1)
    for _ in range(300):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        with pytest.raises(ValueError, match=r"checksum|entries|version"):
            decode_snapshot(damaged)
