"""The partition of a group, by the hash codes that Java has given, and of a record."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2

from odradek.broker.core.partitioner import partition_of, partition_of_key


@pytest.mark.parametrize(
    ("group_id", "hashed"),
    [
        ("", 0),
        ("g", 103),
        ("group-1", 293427299),
        ("orders", -1008770331),
        ("\U0001f600-grüppe", 1507260158),
        ("polygenelubricants", 0),  # -2 ** 31, which has no positive counterpart
    ],
)
@pytest.mark.parametrize("count", [1, 3, 50])
def test_it_is_javas_hash_code_without_its_sign(group_id: str, hashed: int, count: int) -> None:
    assert partition_of(group_id, count) == abs(hashed) % count


@given(st.binary(max_size=40), st.integers(1, 50))
@example(b"", 1)
def test_a_record_goes_where_kafka_python_puts_it(key: bytes, count: int) -> None:
    assert partition_of_key(key, count) == (murmur2(key) & 0x7FFFFFFF) % count


def horner(text: str) -> int:
    """Java's hash code, as its documentation says it."""
    hashed = 0
    for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H"):
        hashed = (31 * hashed + unit) % 2**32
    return hashed - 2**32 * (hashed >= 2**31)


@given(st.text(st.characters(), max_size=70), st.sampled_from([1, 1000]))
@example("\uffff", 32_767)
@example("\uffff", 32_768)
@example("a\U0010ffffb\ud800", 7)
def test_long_ids(text: str, times: int) -> None:
    key = text * times
    assert partition_of(key, 2**31) == abs(horner(key)) % 2**31
