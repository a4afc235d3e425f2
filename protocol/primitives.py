"""Kafka's primitive types that `struct` can't handle alone.

The compiled codecs (compiler.py) read and write fixed-size numbers with `struct`. This module has
the rest: unsigned varints, strings, and uuids as text.

Source: "Protocol Primitive Types" in Kafka's protocol guide.
"""

import base64
import struct
from collections.abc import Sequence, Sized
from typing import Final

from .errors import BadLength, MalformedMessage, Truncated

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)
INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_LATER_SHIFTS: Final = (7, 14, 21, 28)  # of the bytes of an unsigned varint after the first


class Writer(bytearray):
    """Encoded bytes, with splices: objects to send in between, such as spans of a file.

    `splices` has (position, thing): `thing` is sent before the byte at `position`. Only its length
    matters here; the connection sends it.
    """

    splices: Sequence[tuple[int, Sized]] = ()
    spliced_bytes: int = 0
    """Total size of the splices."""

    def splice(self, thing: Sized) -> None:
        """Insert `thing` at the current end."""
        self.splices = [*self.splices, (len(self), thing)]
        self.spliced_bytes += len(thing)


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits.

    Raises: Truncated, BadLength (longer than five bytes).
    """
    try:
        value = buffer[position]
        if value < 0x80:
            return value, position + 1
        value &= 0x7F
        for shift in _LATER_SHIFTS:
            position += 1
            byte = buffer[position]
            if byte < 0x80:
                return (value | byte << shift) & 0xFFFFFFFF, position + 1
            value |= (byte & 0x7F) << shift
    except IndexError:
        raise Truncated("unsigned varint") from None
    raise BadLength("unsigned varint is longer than 5 bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_INT16: Final = struct.Struct(">h")


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Read a nullable string with an int16 length.

    Raises: Truncated, BadLength, MalformedMessage (not UTF-8).
    """
    if position + 2 > len(buffer):
        raise Truncated("string length")
    (size,) = _INT16.unpack_from(buffer, position)
    position += 2
    if size < 0:
        if size != -1:
            raise BadLength(f"string length {size}")
        return None, position
    end = position + size
    if end > len(buffer):
        raise Truncated("string")
    try:
        return str(buffer[position:end], "utf-8"), end
    except UnicodeDecodeError as error:
        raise MalformedMessage(f"string is not UTF-8: {error.reason}") from None


def uuid_text(uuid: bytes) -> str:
    """A uuid as Kafka's text: 22 characters of unpadded base64url."""
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_bytes(uuid: str) -> bytes:
    """The 16 bytes of a uuid in Kafka's text form.  Raises: ValueError."""
    raw = base64.urlsafe_b64decode(uuid + "==")
    if len(raw) != 16:
        raise ValueError(f"not a uuid: {uuid!r}")
    return raw
