"""Records as JSON lines: what is printed reads back as it was."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.cli.records import Headers, record_from_json, record_to_json

nullable_bytes = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)


@dataclass
class Consumed:
    """A message with the interface of confluent-kafka's."""

    of: dict[str, Any]

    def __getattr__(self, name: str) -> Callable[[], Any]:
        return lambda: self.of[name]


def line_of(
    key: bytes | None, value: bytes | None, headers: Headers, partition: int, timestamp: int
) -> str:
    fields: dict[str, Any] = {"topic": "t", "partition": partition, "offset": 7}
    fields |= {"timestamp": (1, timestamp), "key": key, "value": value, "headers": headers or None}
    return record_to_json(Consumed(fields))


@pytest.mark.slow
@given(
    key=nullable_bytes,
    value=nullable_bytes,
    headers=st.lists(
        st.tuples(st.text(max_size=10).filter(lambda name: "\0" not in name), nullable_bytes),
        max_size=4,
    ),
    partition=st.integers(0, 2**31 - 1),
    timestamp=st.integers(-1, 2**63 - 1).filter(bool),
)
def test_round_trip(
    key: bytes | None, value: bytes | None, headers: Headers, partition: int, timestamp: int
) -> None:
    line = line_of(key, value, headers, partition, timestamp)
    assert "\n" not in line
    back = record_from_json(line.encode())
    assert (back.key, back.value, back.headers) == (key, value, headers)
    assert (back.partition, back.timestamp_ms) == (partition, timestamp)


def test_text_is_readable_and_other_bytes_are_marked() -> None:
    fields = json.loads(line_of("ü".encode(), b"\xff", [("h", None)], 1, 2))
    assert fields == {
        "topic": "t",
        "partition": 1,
        "offset": 7,
        "timestamp": 2,
        "timestamp_type": "CreateTime",
        "key": "ü",
        "value": {"base64": "/w=="},
        "headers": [["h", None]],
    }


def test_only_the_value_is_needed() -> None:
    record = record_from_json(b'{"value": null, "headers": {"a": "b"}}')
    assert (record.key, record.value, record.partition, record.timestamp_ms) == (None,) * 4
    assert record.headers == [("a", b"b")]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"9" * 5000, "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "has no field 'value'"),
        (b'{"value": "x", "vlaue": 1}', "unknown field 'vlaue'"),
        (b'{"value": 1}', "field 'value' is not a string"),
        (b'{"value": {"base64": "?"}}', "is not base64"),
        (b'{"value": {"base64": "", "x": 1}}', "field 'value' is not a string"),
        (b'{"value": "\\ud800"}', "field 'value' is not Unicode text"),
        (b'{"value": "x", "headers": 1}', "not a list of [name, value]"),
        (b'{"value": "x", "headers": [["a"]]}', "not a list of [name, value]"),
        (b'{"value": "x", "headers": [["\\ud800", ""]]}', "not Unicode text"),
        (b'{"value": "x", "headers": [["a\\u0000b", ""]]}', "holds NUL"),
        (b'{"value": "x", "partition": "1"}', "'partition' is not a whole number"),
        (b'{"value": "x", "partition": true}', "'partition' is not a whole number"),
        (b'{"value": "x", "partition": -1}', "'partition' is out of range"),
        (b'{"value": "x", "timestamp": -2}', "'timestamp' is out of range"),
        (b'{"value": "x", "timestamp": 0}', "timestamp 0 cannot be written"),
    ],
)
def test_a_bad_line_is_refused_with_a_sentence(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError) as refused:
        record_from_json(line)
    assert complaint in str(refused.value)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_random_lines_raise_value_error_only(line: bytes) -> None:
    with contextlib.suppress(ValueError):
        record_from_json(line)
