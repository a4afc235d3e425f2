"""Requests and answers as bytes: their headers, and the size in front.  Nothing is sent here."""

import struct
import sys
from typing import Final, TypeVar

from odradek.protocol.framing import API_VERSIONS_KEY
from odradek.protocol.schema import Message

SIZE: Final = struct.Struct(">i")
_START: Final = struct.Struct(">hhih")
_WITHOUT_CLIENT_ID: Final = (7, 0)  # ControlledShutdown; no other request has this header

Response = TypeVar("Response", bound=Message)


def framed(body: bytes | bytearray) -> bytes:
    """A request or an answer with its size."""
    return SIZE.pack(len(body)) + body


def size_bytes_in(head: bytes) -> int:
    """The size that a frame's first SIZE.size bytes tell."""
    size_bytes: int = SIZE.unpack(head)[0]
    return size_bytes


def request_bytes(
    request: Message, version: int, correlation_id: int = 1, client_id: str = "test"
) -> bytes:
    """A request with its header, without the frame's size."""
    name = client_id.encode()
    start = _START.pack(request.API_KEY, version, correlation_id, len(name)) + name
    if (request.API_KEY, version) == _WITHOUT_CLIENT_ID:
        start = start[: _START.size - 2]
    tags = b"\0" if version in request.FLEXIBLE else b""
    return start + tags + bytes(request.encode(version))


def answer_in(
    frame: bytes, kind: type[Response], version: int, correlation_id: int = 1
) -> Response:
    """The answer in a frame, which must be the one to this request and nothing more."""
    flexible = version in kind.FLEXIBLE and kind.API_KEY != API_VERSIONS_KEY
    start = correlation_id.to_bytes(4, "big") + (b"\0" if flexible else b"")
    assert frame[: len(start)] == start, "not the answer to this"
    answer, end = kind.decode(memoryview(frame), version, len(start))
    assert end == len(frame), "bytes after the answer"
    return answer


def response_class(request: type[Message]) -> type[Message]:
    """The class beside a request's."""
    name = request.__name__.removesuffix("Request") + "Response"
    found: type[Message] = getattr(sys.modules[request.__module__], name)
    return found
