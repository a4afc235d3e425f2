"""The headers in front of requests and responses."""

import struct

import pytest

from odradek.protocol.errors import Truncated
from odradek.protocol.framing import read_client_id, read_response_header

FIXED = struct.pack(">hhih", 3, 9, 7, -1)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = FIXED + b"\x02" + b"\x00\x02ab" + b"\x05\x00"
    assert read_client_id(frame, flexible=True) == (None, len(frame))
    assert read_client_id(frame + b"body", flexible=True) == (None, len(frame))


@pytest.mark.parametrize(
    "tagged", [b"\x01\x00", b"\x01\x00\x03ab", b"\x01\x00\x02a", b"\x03\x00\x00"]
)
def test_tagged_fields_of_a_header_end_within_the_frame(tagged: bytes) -> None:
    with pytest.raises(Truncated):
        read_client_id(FIXED + tagged, flexible=True)


def test_a_response_may_be_nothing_but_its_header() -> None:
    assert read_response_header(b"\0\0\0\x07", flexible=False) == (7, 4)
    assert read_response_header(b"\0\0\0\x07\0", flexible=True) == (7, 5)
    with pytest.raises(Truncated):
        read_response_header(b"\0\0\x07", flexible=False)
