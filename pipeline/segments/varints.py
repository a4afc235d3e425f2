"""Reads many variable-length numbers at once, with numpy."""

from typing import Any, Final

import numpy as np

Numbers = Any  # numpy's arrays: numpy is not installed where types are checked
Bits = Any

_ZIGZAG: Final = (np.arange(1 << 14) >> 1) ^ -(np.arange(1 << 14) & 1)


def read_varints(data: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The signed numbers that begin at these places, and the places after them.

    Places outside of the data yield meaningless numbers.
    """
    first = data.take(at, mode="clip")
    after = at + 1
    if len(at) == 0 or first.max() < 128:
        return _ZIGZAG.take(first), after
    second = data.take(after, mode="clip")
    has_second = first > 127
    raw = (second & 127).astype(np.uint16)
    raw <<= 7
    raw *= has_second
    raw |= first & 127
    values = _ZIGZAG.take(raw)
    after += has_second
    rows = np.flatnonzero(has_second & (second > 127))
    if len(rows):
        values[rows], after[rows] = _read_long_varints(data, at[rows])
    return values, after


def _read_long_varints(data: Numbers, at: Numbers) -> tuple[Numbers, Numbers]:
    """The same, of any length.

    After a number with more bytes than 64 bits need, the place is outside of the data.
    """
    raw = np.zeros(len(at), np.uint64)
    after = at.copy()
    rows = np.arange(len(at))
    shift = 0
    while len(rows) and shift < 64:
        byte = data.take(after[rows], mode="clip")
        raw[rows] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        after[rows] += 1
        rows = rows[byte > 127]
        shift += 7
    after[rows] = len(data) + 1
    signed = raw.view(np.int64)
    return ((raw >> np.uint64(1)).view(np.int64)) ^ -(signed & 1), after
