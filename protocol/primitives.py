"""Kafka's primitive types that need more than one struct format character.

Fixed-size numbers are read and written by `struct` directly in the compiled codecs (compiler.py);
here is what is left: unsigned varints, strings, and uuids in their text form.

Source: "Protocol Primitive Types" in Kafka's protocol guide.
"""

import base64
import struct
from collections.abc import Sequence, Sized
from typing import Final

from .errors import BadLength, MalformedMessage, Truncated

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)
INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
_UVARINT_BYTES_MAX: Final = 5


class Writer(bytearray):
    """Encoded bytes, with the places where something else is to be sent in between.

    `splices` holds (position, thing): `thing`, a span of a file for example, belongs before the
    byte at `position`. Only its length is known here; the connection sends it.
    """

    splices: Sequence[tuple[int, Sized]] = ()

    def splice(self, thing: Sized) -> None:
        """Have `thing` sent here."""
        self.splices = [*self.splices, (len(self), thing)]

    @property
    def spliced_bytes(self) -> int:
        """Bytes that the splices add to those held here."""
        return sum([len(thing) for _, thing in self.splices])


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits.

    Raises: Truncated, BadLength (longer than five bytes).
    """
    value = shift = 0
    for at in range(position, position + _UVARINT_BYTES_MAX):
        if at >= len(buffer):
            raise Truncated("unsigned varint")
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFF, at + 1
        shift += 7
    raise BadLength("unsigned varint is longer than 5 bytes")


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


_INT16: Final = struct.Struct(">h")


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """Read a classic nullable string.  Raises: Truncated, BadLength, MalformedMessage."""
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
    """Kafka's text of a uuid: 22 characters of unpadded base64url."""
    return base64.urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_bytes(uuid: str) -> bytes:
    """The 16 bytes behind Kafka's text of a uuid.  Raises: ValueError."""
    raw = base64.urlsafe_b64decode(uuid + "==")
    if len(raw) != 16:
        raise ValueError(f"not a uuid: {uuid!r}")
    return raw
