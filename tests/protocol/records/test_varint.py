"""Signed variable-length integers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.protocol.errors import BadLength, Truncated
from odradek.protocol.records.varint import (
    append_varint,
    append_varlong,
    read_varint,
    read_varlong,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.mark.slow
@given(INT32)
def test_a_varint_comes_back(value: int) -> None:
    out = bytearray(b"x")
    append_varint(out, value)
    assert read_varint(out + b"y", 1) == (value, len(out))
    assert len(out) <= 1 + 5


@given(INT64)
def test_a_varlong_comes_back(value: int) -> None:
    out = bytearray()
    append_varlong(out, value)
    assert read_varlong(memoryview(out), 0) == (value, len(out))
    assert len(out) <= 10


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (64, "8001"), (-65, "8101"), (8191, "fe7f")],
)
def test_the_bytes_are_kafkas(value: int, encoded: str) -> None:
    out = bytearray()
    append_varint(out, value)
    assert out.hex() == encoded


@pytest.mark.slow
@given(INT64, st.data())
def test_every_prefix_is_truncated(value: int, data: st.DataObject) -> None:
    out = bytearray()
    append_varlong(out, value)
    with pytest.raises(Truncated):
        read_varlong(out[: data.draw(st.integers(0, len(out) - 1))], 0)


@pytest.mark.parametrize("encoded", ["ffffffff10", "808080808000"])
def test_a_varint_out_of_range_or_too_long_is_refused(encoded: str) -> None:
    with pytest.raises(BadLength):
        read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ffffffffffffffffff02", "8080808080808080808000"])
def test_a_varlong_out_of_range_or_too_long_is_refused(encoded: str) -> None:
    with pytest.raises(BadLength):
        read_varlong(bytes.fromhex(encoded), 0)


def test_values_out_of_range_are_not_written() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        append_varint(bytearray(), 2**31)
    with pytest.raises(ValueError, match="does not fit"):
        append_varlong(bytearray(), -(2**63) - 1)
