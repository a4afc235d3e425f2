"""Kafka's signed variable-length integers: zigzag, seven bits per byte, lowest bits first.

These functions define the encoding; other modules (validate.py) inline the short cases for speed.
"""

from ..errors import BadLength, Truncated
from ..primitives import INT32_MAX, INT64_MAX, Buffer


def read_varint(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the 32-bit value at `position` and the position after it.

    Raises: Truncated, BadLength.
    """
    if position < len(buffer) and (raw := buffer[position]) < 128:
        return (raw >> 1) ^ -(raw & 1), position + 1
    return _read_zigzag(buffer, position, bits=32)


def read_varlong(buffer: Buffer, position: int) -> tuple[int, int]:
    """Return the 64-bit value at `position` and the position after it.

    Raises: Truncated, BadLength.
    """
    if position < len(buffer) and (raw := buffer[position]) < 128:
        return (raw >> 1) ^ -(raw & 1), position + 1
    return _read_zigzag(buffer, position, bits=64)


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


def _read_zigzag(buffer: Buffer, position: int, *, bits: int) -> tuple[int, int]:
    raw = shift = 0
    try:
        while True:
            byte = buffer[position]
            position += 1
            raw |= (byte & 127) << shift
            if byte < 128:
                break
            shift += 7
            if shift >= bits:
                raise BadLength(f"a variable-length integer of {bits} bits has too many bytes")
    except IndexError:
        raise Truncated("the bytes end inside a variable-length integer") from None
    if raw >> bits:
        raise BadLength(f"a variable-length integer does not fit in {bits} bits")
    return (raw >> 1) ^ -(raw & 1), position
