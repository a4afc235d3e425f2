"""Batches that Apache Kafka wrote; tests/vectors/records/README.md says how they came about."""

import pytest

from odradek.protocol.records import (
    BatchHeader,
    Codec,
    Marker,
    MarkerType,
    build_batch,
    check_crc,
    iter_batches,
    iter_records,
    read_header,
    read_marker,
    validate_records,
)

from .values import JAVA_RECORDS, SIZE_BYTES_MAX, VECTORS


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_the_java_client_is_read(codec: Codec) -> None:
    batch = (VECTORS / f"java-{codec.name.lower()}.batch").read_bytes()
    header = read_header(batch)
    check_crc(batch, header)
    assert header._replace(batch_length=0, crc=0) == BatchHeader(
        base_offset=1000,
        batch_length=0,
        partition_leader_epoch=9,
        magic=2,
        crc=0,
        attributes=codec,
        last_offset_delta=99,
        base_timestamp=JAVA_RECORDS[0].timestamp,
        max_timestamp=JAVA_RECORDS[-1].timestamp,
        producer_id=77,
        producer_epoch=3,
        base_sequence=5,
        record_count=100,
    )
    assert list(iter_records(batch, header, size_bytes_max=SIZE_BYTES_MAX)) == JAVA_RECORDS
    found = validate_records(batch, header, size_bytes_max=SIZE_BYTES_MAX)
    assert found[:3] == (header.base_timestamp, header.max_timestamp, 99)


def test_the_same_records_give_the_same_bytes_as_in_java() -> None:
    built = build_batch(
        JAVA_RECORDS, leader_epoch=9, producer_id=77, producer_epoch=3, base_sequence=5
    )
    assert built == (VECTORS / "java-none.batch").read_bytes()


@pytest.mark.parametrize(
    ("name", "batch_count"), [("t2", 8), ("transaction-state", 14), ("consumer-offsets", 3)]
)
def test_a_segment_is_read_and_written_again(name: str, batch_count: int) -> None:
    log = (VECTORS / f"kafka-3.9.2-{name}.log").read_bytes()
    written = b""
    batches = list(iter_batches(log))
    for position, header in batches:
        batch = memoryview(log)[position : position + header.size_bytes]
        check_crc(batch, header)
        found = validate_records(batch, header, size_bytes_max=0)
        assert found.max_timestamp == header.max_timestamp
        written += build_batch(
            list(iter_records(batch, header, size_bytes_max=0)),
            leader_epoch=header.partition_leader_epoch,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
            is_control=header.is_control,
        )
    assert len(batches) == batch_count
    assert written == log


def test_transactions_end_as_the_coordinator_said() -> None:
    log = memoryview((VECTORS / "kafka-3.9.2-t2.log").read_bytes())
    markers = [
        (header.base_offset, read_marker(record))
        for position, header in iter_batches(log)
        if header.is_control
        for record in iter_records(log[position:], header, size_bytes_max=0)
    ]
    commit, abort = Marker(MarkerType.COMMIT, 0), Marker(MarkerType.ABORT, 0)
    assert markers == [(1, commit), (3, abort), (5, commit), (7, abort)]
