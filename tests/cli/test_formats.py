"""Formats of records in kcat's words."""

import pytest

from odradek.cli.formats import parse_format, plain_lines

from .test_records import Consumed

MESSAGE = Consumed(
    {
        "topic": "t",
        "partition": 3,
        "offset": 17,
        "timestamp": (1, 1_700_000_000_000),
        "key": b"k\xff",
        "value": None,
        "headers": [("a", b"b"), ("c", None)],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%t-%p@%o\\n", b"t-3@17\n"),
        ("%T", b"1700000000000"),
        ("%k|%K|%s|%S", b"k\xff|2||-1"),
        ("%R", b"\xff\xff\xff\xff"),
        ("%h", b"a=b,c="),
        ("100%%\\t\\x41\\\\\\0", b"100%\tA\\\0"),
        ("", b""),
        ("ü", "ü".encode()),
    ],
)
def test_what_is_printed(text: str, expected: bytes) -> None:
    assert parse_format(text)(MESSAGE) == expected


@pytest.mark.parametrize("text", ["%", "%x", "\\", "\\q", "\\x4", "%é"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is none of"):
        parse_format(text)


def test_a_verb_without_a_source_is_refused() -> None:
    with pytest.raises(ValueError, match="'%h' is not known here"):
        parse_format("%h", without="h")


def test_plain_lines() -> None:
    assert plain_lines(None)(MESSAGE) == b"\n"
    assert plain_lines(": ")(MESSAGE) == b"k\xff: \n"
