"""The walk over what a producer sent: what it accepts, and what it says of the rest."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records import (
    HEADER_SIZE_BYTES,
    Codec,
    InvalidRecords,
    Record,
    ValidRecords,
    build_batch,
    read_header,
    validate_records,
)
from odradek.protocol.records import validate as validate_module
from odradek.protocol.records.varint import append_varint, append_varlong

from .values import CODECS, SIZE_BYTES_MAX, example_records, with_body


def validate(batch: bytes | bytearray, *, keys_required: bool = False) -> ValidRecords:
    return validate_records(
        memoryview(batch),
        read_header(batch),
        size_bytes_max=SIZE_BYTES_MAX,
        keys_required=keys_required,
    )


def zigzag(value: int) -> bytes:
    out = bytearray()
    append_varint(out, value)
    return bytes(out)


def record(
    *,
    size: int | None = None,
    timestamp: int = 0,
    offset: int = 0,
    key: bytes = b"\x06key",
    value: bytes = b"\x04va",
    headers: bytes = b"\x00",
) -> bytes:
    """One record with the given encoded parts."""
    delta = bytearray()
    append_varlong(delta, timestamp)
    body = b"\0" + bytes(delta) + zigzag(offset) + key + value + headers
    return zigzag(len(body) if size is None else size) + body


@pytest.mark.parametrize(
    "body",
    [
        record(),
        record(key=b"\x01", value=b"\x01"),
        record(timestamp=-5),
        record(timestamp=2**50),
        record(key=b"\x8c\x00abcdef"[:2] + b"kkkkkk"),  # 6 in two bytes is not forbidden
        record(headers=b"\x02" + b"\x02h" + b"\x01"),
        record(headers=b"\x04" + b"\x00\x00" + b"\x02h\x04vv"),
        record(value=zigzag(100_000) + bytes(100_000)),
        record(key=zigzag(8_190) + bytes(8_190), value=b"\x00"),  # its size takes three bytes
    ],
)
def test_a_well_formed_record_passes(body: bytes) -> None:
    validate(with_body(body, count=1))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (record(size=-1), "claims -1 bytes"),
        (record(size=9), "left over|leads out"),
        (record(size=12), "bytes end"),
        (record(offset=1), "offset delta is 1"),
        (record(offset=-1), "offset delta is -1"),
        (record(key=b"\x03key"), "key or value of -2"),
        (record(value=b"\x03va"), "key or value of -2"),
        (record(key=b"\x03k"), "key or value of -2"),  # one byte, but for the sign
        (record(value=b"\x03v"), "key or value of -2"),
        (record(value=b"\x03\x02v"), "key or value of -2"),  # the next byte would fit
        (record(key=b"\x28" + bytes(10) + b"\x14" + bytes(9), value=b"\x03"), "value of -2"),
        (record(key=b"\x14key"), "leads out|bytes end"),
        (record(value=b"\x06va"), "leads out|bytes end"),
        (record(value=b"\xfe\x7fva"), "leads out"),
        (record(value=zigzag(2**31 - 1)), "leads out"),
        (record(headers=b"\x01"), "claims -1 headers"),
        (record(headers=b"\x02"), "bytes end"),
        (record(headers=zigzag(2**31 - 1)), "bytes end"),
        (record(headers=b"\x02\x01\x00"), "no key"),
        (record(headers=b"\x02\x04\xff\xfe\x00"), "not UTF-8"),
        (record(headers=b"\x02\x02h\x03"), "key or value of -2"),
        (record(headers=b"\x00\x00"), "left over"),
        (record(key=b"\xff\xff\xff\xff\xff\x00key"), "too many bytes"),
        (b"\x0e\x00" + b"\x80" * 10 + b"\x00", "too many bytes|bytes end"),
    ],
)
def test_a_broken_record_is_named(body: bytes, message: str) -> None:
    with pytest.raises(InvalidRecords, match=message) as caught:
        validate(with_body(body, count=1))
    assert [index for index, _ in caught.value.errors] == [0]


@pytest.mark.parametrize("codec", CODECS)
def test_an_offset_delta_out_of_order_is_named(codec: Codec) -> None:
    records = example_records(5)
    records[3].offset = 4
    batch = build_batch(records[:4], codec=codec, last_offset=4)
    header = read_header(batch)._replace(last_offset_delta=3)
    with pytest.raises(InvalidRecords, match="record 3: the offset delta is 4"):
        validate_records(batch, header, size_bytes_max=SIZE_BYTES_MAX)


@pytest.mark.parametrize("last_offset_delta", [-1, 0, 2, 4, 2**31 - 1, -(2**31)])
def test_the_last_offset_must_fit_the_count(last_offset_delta: int) -> None:
    batch = build_batch(example_records(4))
    header = read_header(batch)._replace(last_offset_delta=last_offset_delta)
    with pytest.raises(InvalidRecords) as caught:
        validate_records(batch, header, size_bytes_max=SIZE_BYTES_MAX)
    assert caught.value.errors == []


@pytest.mark.slow
def test_a_batch_may_have_more_records_than_two_bytes_count() -> None:
    body = b"".join(record(offset=index, timestamp=index) for index in range(16_500))
    assert validate(with_body(body, count=16_500)) == (0, 16_499, 16_499, len(body))


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(InvalidRecords, match="bytes follow"):
        validate(with_body(record() + b"\0", count=1))
    misread = record(key=zigzag(100) + b"\x01" + bytes(99), value=b"\x04\x04a")  # one byte later
    with pytest.raises(InvalidRecords, match="bytes follow"):
        validate(with_body(misread + b"\0", count=1))


def test_a_record_count_beyond_all_bytes_costs_nothing() -> None:
    with pytest.raises(InvalidRecords, match="cannot hold"):
        validate(with_body(record(), count=2**31 - 1))


def test_timestamps_are_those_of_the_records() -> None:
    body = b"".join(
        record(offset=index, timestamp=timestamp)
        for index, timestamp in enumerate([5, 5, 900, 3, 900, -7, 8000, 8000, 70])
    )
    assert validate(with_body(body, count=9))[:3] == (-7, 8000, 6)


def test_of_equal_timestamps_the_first_counts() -> None:
    body = b"".join(
        record(offset=index, timestamp=timestamp)
        for index, timestamp in enumerate([5, 900, 3, 900])
    )
    assert validate(with_body(body, count=4))[:3] == (3, 900, 1)


@pytest.mark.parametrize(("base", "delta"), [(2**63 - 1, 1), (-(2**63), -1)])
def test_a_timestamp_beyond_64_bits_is_refused(base: int, delta: int) -> None:
    batch = with_body(record(timestamp=delta), count=1)
    header = read_header(batch)._replace(base_timestamp=base)
    with pytest.raises(InvalidRecords, match="64 bits"):
        validate_records(batch, header, size_bytes_max=0)


@pytest.mark.parametrize("codec", CODECS)
def test_records_without_key_are_named_if_keys_are_required(codec: Codec) -> None:
    batch = build_batch(example_records(10), codec=codec)
    validate(batch)
    with pytest.raises(InvalidRecords) as caught:
        validate(batch, keys_required=True)
    assert [index for index, _ in caught.value.errors] == [0, 4, 8]
    keyed = build_batch([Record(0, 0, b"", None), Record(1, 0, b"k", b"")], codec=codec)
    validate(keyed, keys_required=True)


@pytest.mark.slow
def test_the_fast_path_agrees_with_the_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of all shapes, some broken, give the same with the fast path switched off."""

    def nothing(*_: object) -> tuple[int, ...]:
        raise IndexError

    fast = validate_module._HEAD
    byte = st.sampled_from([0, 1, 2, 3, 6, 0x7F, 0x80, 0x81, 0xFE, 0xFF]) | st.integers(0, 255)

    @settings(max_examples=400)
    @given(st.lists(st.tuples(st.integers(0, 900), byte), max_size=3), st.integers(0, 90))
    def check(flips: list[tuple[int, int]], count: int) -> None:
        body = bytearray(build_batch(example_records(count + 1))[HEADER_SIZE_BYTES:])
        for at, value in flips:
            body[at % len(body)] = value
        outcomes = []
        for head in (fast, nothing):
            monkeypatch.setattr(validate_module, "_HEAD", head)
            outcomes.append(outcome(with_body(bytes(body), count=count + 1)))
        assert outcomes[0] == outcomes[1]

    check()


def outcome(batch: bytearray) -> object:
    try:
        return validate(batch)
    except MalformedMessage as error:
        return type(error), str(error)
