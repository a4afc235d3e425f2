"""Kafka's signed variable-length integers: zigzag, seven bits a byte, the lowest bits first.

These functions define the encoding; `validate.py` inlines the short cases for speed.
"""

from ..errors import BadLength, Truncated
from ..primitives import Buffer

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the 32-bit value at `position` and the position after it.

    Raises: Truncated, BadLength.
    """
    return _read_zigzag(buffer, position, raw_max=2 * INT32_MAX + 1)


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the 64-bit value at `position` and the position after it.

    Raises: Truncated, BadLength.
    """
    return _read_zigzag(buffer, position, raw_max=2 * INT64_MAX + 1)


def append_varint(out: bytearray, value: int) -> None:
    """Append `value`, which must fit in 32 bits.  Raises: ValueError."""
    if not -INT32_MAX - 1 <= value <= INT32_MAX:
        raise ValueError(f"{value} does not fit in a varint")
    append_varlong(out, value)


def append_varlong(out: bytearray, value: int) -> None:
    """Append `value`, which must fit in 64 bits.  Raises: ValueError."""
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ValueError(f"{value} does not fit in a varlong")
    raw = (value << 1) ^ (value >> 63)
    while raw > 127:
        out.append(raw & 127 | 128)
        raw >>= 7
    out.append(raw)


def _read_zigzag(buffer: Buffer, position: int, *, raw_max: int) -> tuple[int, int]:
    raw = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            raw |= (byte & 127) << shift
            if raw > raw_max:
                raise BadLength("a variable-length integer is out of its range")
            if byte < 128:
                return (raw >> 1) ^ -(raw & 1), position
            shift += 7
            if shift > 63:
                raise BadLength("a variable-length integer has too many bytes")
    except IndexError:
        raise Truncated("the bytes end inside a variable-length integer") from None
