"""A batch in another codec: other bytes, the same records and header."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.errors import BadLength
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    TRANSACTIONAL,
    Codec,
    Record,
    build_batch,
    check_crc,
    iter_records,
    read_header,
    recompressed,
)
from tests.broker.batches import altered

from .values import CODECS, SIZE_BYTES_MAX, record_lists

OTHERS = ("batch_length", "crc", "attributes")


def in_codec(batch: bytearray, codec: int, level: int | None = None) -> bytearray:
    return recompressed(batch, read_header(batch), codec, level, size_bytes_max=SIZE_BYTES_MAX)


def fields(batch: bytearray) -> dict[str, Any]:
    """The header without what depends on the codec."""
    return {k: v for k, v in read_header(batch)._asdict().items() if k not in OTHERS}


def records_in(batch: bytearray) -> list[Record]:
    header = read_header(batch)
    check_crc(batch, header)
    assert header.size_bytes == len(batch)
    return list(iter_records(batch, header, size_bytes_max=SIZE_BYTES_MAX))


@pytest.mark.slow
@pytest.mark.parametrize("codec", CODECS)
def test_every_pair_of_codecs_keeps_records_and_header(codec: Codec) -> None:
    @settings(max_examples=40, deadline=None)
    @given(
        records=record_lists(),
        source=st.sampled_from(CODECS),
        producer_id=st.integers(-1, (1 << 63) - 1),
        sequence=st.integers(-1, (1 << 31) - 1),
        is_transactional=st.booleans(),
        leader_epoch=st.integers(-1, 9),
    )
    def check(records: list[Record], source: Codec, is_transactional: bool, **more: int) -> None:
        sent = build_batch(
            records,
            codec=source,
            is_transactional=is_transactional,
            producer_id=more["producer_id"],
            producer_epoch=3,
            base_sequence=more["sequence"],
            leader_epoch=more["leader_epoch"],
        )
        stored = in_codec(sent, codec)
        assert records_in(stored) == records
        assert fields(stored) == fields(sent)
        assert read_header(stored).attributes == codec | TRANSACTIONAL * is_transactional
        assert in_codec(stored, Codec.NONE) == in_codec(sent, Codec.NONE)

    check()


def test_flags_that_the_broker_sets_or_does_not_know_are_dropped() -> None:
    sent = build_batch([Record(0, 5, None, b"v")])
    for attributes in (0x08, 0x40, 0x80, 0x7F00):
        stored = in_codec(altered(sent, attributes=attributes), Codec.ZSTD)
        assert read_header(stored).attributes == Codec.ZSTD


def test_a_level_reaches_the_codec() -> None:
    value = b"".join(str(number * number).encode() for number in range(5_000))
    sent = build_batch([Record(0, 5, None, value)])
    assert len(in_codec(sent, Codec.ZSTD, 19)) < len(in_codec(sent, Codec.ZSTD, -5)) < len(sent)


def test_no_more_is_decompressed_than_allowed() -> None:
    sent = build_batch([Record(0, 5, None, bytes(1000))], codec=Codec.GZIP)
    records_bytes = len(in_codec(sent, Codec.NONE)) - HEADER_SIZE_BYTES
    header = read_header(sent)
    recompressed(sent, header, Codec.LZ4, None, size_bytes_max=records_bytes)
    with pytest.raises(BadLength):
        recompressed(sent, header, Codec.LZ4, None, size_bytes_max=records_bytes - 1)
