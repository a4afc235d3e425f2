"""What a peer can make us build is bounded, however small its elements are on the wire."""

import struct

import pytest

from odradek.protocol.compiler import ELEMENTS_MAX, STRING_BYTES_MAX
from odradek.protocol.errors import BadLength
from odradek.protocol.framing import HEADER_TAGS_MAX, read_client_id
from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.messages.k03_metadata import MetadataRequest
from odradek.protocol.messages.k12_heartbeat import HeartbeatRequest
from odradek.protocol.primitives import write_uvarint


def metadata_v1(count: int) -> bytes:
    return struct.pack(">i", count) + bytes(2 * count)


def test_no_message_has_more_elements_than_this() -> None:
    with pytest.raises(BadLength, match="too many elements"):
        MetadataRequest.decode(metadata_v1(ELEMENTS_MAX + 1), 1)


@pytest.mark.slow
def test_a_message_may_have_this_many_elements() -> None:
    request, _ = MetadataRequest.decode(metadata_v1(ELEMENTS_MAX), 1)
    assert request.topics is not None
    assert len(request.topics) == ELEMENTS_MAX


@pytest.mark.slow
def test_nested_elements_count_together() -> None:
    count = 1000
    topic = struct.pack(">hi", 0, count) + bytes(8 * count)
    topics = ELEMENTS_MAX // count
    start = struct.pack(">hhii", -1, 1, 0, topics)
    with pytest.raises(BadLength, match="too many elements"):
        ProduceRequest.decode(start + topic * topics, 3)


def test_tagged_fields_count_too() -> None:
    body = bytearray(struct.pack(">bhi", 0, 1, 0) + b"\x01")
    write_uvarint(body, ELEMENTS_MAX + 1)
    with pytest.raises(BadLength, match="too many tagged fields"):
        ProduceRequest.decode(bytes(body) + bytes(2 * (ELEMENTS_MAX + 1)), 9)


def test_tagged_fields_of_a_header_are_few() -> None:
    frame = bytearray(struct.pack(">hhih", 3, 9, 1, -1))
    write_uvarint(frame, HEADER_TAGS_MAX + 1)
    with pytest.raises(BadLength):
        read_client_id(bytes(frame) + bytes(2 * (HEADER_TAGS_MAX + 1)), flexible=True)


@pytest.mark.parametrize("size_bytes", [STRING_BYTES_MAX, STRING_BYTES_MAX + 1])
def test_a_compact_string_is_no_longer_than_others(size_bytes: int) -> None:
    text = "g" * size_bytes
    data = HeartbeatRequest(group_id=text).encode(4)
    if size_bytes == STRING_BYTES_MAX:
        assert HeartbeatRequest.decode(bytes(data), 4)[0].group_id == text
    else:
        with pytest.raises(BadLength, match="string of"):
            HeartbeatRequest.decode(bytes(data), 4)
