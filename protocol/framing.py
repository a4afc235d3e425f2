"""Frames, and the headers of requests and responses.

A frame is an int32 size and as many bytes. A request header is version 1, or 2 (with tagged fields)
for flexible request versions, or 0 (without a client id) for ControlledShutdown 0. A response
header is version 0, or 1 for flexible versions, but always 0 for ApiVersions (KIP-511).

Source: RequestHeader.json, ResponseHeader.json; "Protocol Requests" in Kafka's protocol guide.
"""

import struct
from typing import Final

from .errors import BadLength, MalformedMessage, Truncated
from .primitives import Buffer, Writer, read_nullable_string, read_uvarint
from .schema import Message, int16, int32, string

FRAME_SIZE: Final = struct.Struct(">i")
_FIXED: Final = struct.Struct(">hhi")
_FIXED_BYTES: Final = _FIXED.size
_SIZE_AND_CORRELATION: Final = struct.Struct(">ii")
_SIZE_KEY_VERSION_CORRELATION: Final = struct.Struct(">ihhi")
_CORRELATION: Final = struct.Struct(">i")
_LENGTH: Final = struct.Struct(">h")
API_VERSIONS_KEY: Final = 18
WITHOUT_CLIENT_ID: Final = (7, 0)
"""ControlledShutdown 0, the only request whose header has no client id."""
HEADER_TAGS_MAX: Final = 1000  # Kafka defines none yet


class RequestHeader(Message, api_key=-1, versions="0-2", flexible="2+"):
    """The header as Kafka declares it; read by `read_request_start` and `read_client_id`."""

    request_api_key: int = int16("0+")
    request_api_version: int = int16("0+")
    correlation_id: int = int32("0+")
    client_id: str | None = string("1+", nullable="1+")


class ResponseHeader(Message, api_key=-1, versions="0-1", flexible="1+"):
    """The header as Kafka declares it; `encode_response` writes it."""

    correlation_id: int = int32("0+")


def read_request_start(frame: Buffer) -> tuple[int, int, int]:
    """API key, version and correlation id, which begin all headers.  Raises: Truncated."""
    if len(frame) < _FIXED_BYTES:
        raise Truncated("request header")
    fields: tuple[int, int, int] = _FIXED.unpack_from(frame)
    return fields


def encode_request(request: Message, version: int, correlation_id: int, client_id: str) -> Writer:
    """A whole frame: size, request header, body.  Raises: UnsupportedVersion."""
    api_key = request.API_KEY
    out = Writer(_SIZE_KEY_VERSION_CORRELATION.pack(0, api_key, version, correlation_id))
    if (api_key, version) != WITHOUT_CLIENT_ID:
        name = client_id.encode()
        out += _LENGTH.pack(len(name))
        out += name
    if version in request.FLEXIBLE:
        out.append(0)  # no tagged fields
    request.encode(version, out)
    FRAME_SIZE.pack_into(out, 0, len(out) - FRAME_SIZE.size)
    return out


def read_response_header(frame: Buffer, *, flexible: bool) -> tuple[int, int]:
    """Read a response header 0 or 1; return the correlation id and where the body begins.

    Raises: Truncated, MalformedMessage.
    """
    if len(frame) < _CORRELATION.size:
        raise Truncated("response header")
    (correlation_id,) = _CORRELATION.unpack_from(frame)
    position = _CORRELATION.size
    if flexible:
        position = _skip_tagged_fields(frame, position)
    return int(correlation_id), position


def read_client_id(frame: Buffer, *, flexible: bool) -> tuple[str | None, int]:
    """Read the rest of a header version 1 or 2; return the client id and where the body begins.

    Even in version 2 the length of the client id is an int16. Tagged fields are skipped, since none
    is defined.  Raises: Truncated, MalformedMessage.
    """
    client_id, position = read_nullable_string(frame, _FIXED_BYTES)
    if not flexible:
        return client_id, position
    if position < len(frame) and frame[position] == 0:  # no tagged fields
        return client_id, position + 1
    return client_id, _skip_tagged_fields(frame, position)


def _skip_tagged_fields(frame: Buffer, position: int) -> int:
    count, position = read_uvarint(frame, position)
    if count * 2 > len(frame) - position:
        raise Truncated("tagged fields")
    if count > HEADER_TAGS_MAX:
        raise BadLength(f"{count} tagged fields in a header")
    for _ in range(count):
        _, position = read_uvarint(frame, position)
        size_bytes, position = read_uvarint(frame, position)
        position += size_bytes
        if position > len(frame):
            raise Truncated("tagged field")
    return position


def encode_response(
    response: Message, version: int, correlation_id: int, *, flexible_header: bool
) -> Writer:
    """A whole frame: size, response header, body.  Raises: UnsupportedVersion."""
    out = Writer(_SIZE_AND_CORRELATION.pack(0, correlation_id))
    if flexible_header:
        out.append(0)  # no tagged fields
    response.encode(version, out)
    FRAME_SIZE.pack_into(out, 0, len(out) + out.spliced_bytes - FRAME_SIZE.size)
    return out


def frame_size(buffer: Buffer, position: int, size_bytes_max: int) -> int:
    """The size announced at `position`.  Raises: MalformedMessage (negative or too large)."""
    size_bytes: int
    (size_bytes,) = FRAME_SIZE.unpack_from(buffer, position)
    if not 0 <= size_bytes <= size_bytes_max:
        raise MalformedMessage(f"frame of {size_bytes} bytes, allowed are {size_bytes_max}")
    return size_bytes
