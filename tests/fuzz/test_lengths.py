"""No length that lies is believed: not one of any field of any version of any message."""

import tracemalloc

import pytest

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.schema import Message
from tests.protocol.every_message import requests_and_responses

from .lengths import Layout, full

EACH_BYTES_MAX = 16 << 10
"""What an exception and a begun message may take beside twice the frame."""
PADDING = bytes(1 << 16)
"""Behind the message, so that some lies are about bytes that are there."""


@pytest.mark.parametrize("cls", requests_and_responses(), ids=lambda cls: cls.__name__)
def test_every_length_of_every_version_that_lies(cls: type[Message]) -> None:
    for version in range(cls.VERSIONS.first, cls.VERSIONS.last + 1):
        message = full(cls, version)
        layout = Layout(message, version)
        assert bytes(layout.data) == bytes(message.encode(version)), "another layout"
        cls.decode(bytes(layout.data), version)
        for length in layout.lengths:
            for lie in length.lies(len(layout.data) - length.end):
                with pytest.raises(MalformedMessage):
                    cls.decode(layout.with_lie(length, lie), version)


@pytest.mark.slow
def test_what_a_lie_allocates() -> None:
    tracemalloc.start()
    try:
        for cls in requests_and_responses():
            version = cls.VERSIONS.last
            layout = Layout(full(cls, version), version)
            cls.decode(bytes(layout.data), version)  # compiled now
            for length in layout.lengths:
                for lie in length.lies(len(layout.data) - length.end):
                    assert allocated_bytes(
                        cls, version, layout.with_lie(length, lie) + PADDING
                    ) <= (2 * (len(layout.data) + len(PADDING)) + EACH_BYTES_MAX), (
                        cls.__name__,
                        length,
                    )
    finally:
        tracemalloc.stop()


def allocated_bytes(cls: type[Message], version: int, data: bytes) -> int:
    tracemalloc.reset_peak()
    before_bytes, _ = tracemalloc.get_traced_memory()
    try:
        decoded = cls.decode(data, version)
        del decoded
    except MalformedMessage:
        pass
    return tracemalloc.get_traced_memory()[1] - before_bytes
