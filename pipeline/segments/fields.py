"""The fields of many records, read together with numpy."""

from typing import NamedTuple

import numpy as np

from .varints import Bits, Numbers, read_varints


class Slices(NamedTuple):
    """Parts of the bytes; those that are null have no length."""

    start: Numbers
    end: Numbers
    is_null: Bits

    @classmethod
    def empty(cls, size: int) -> "Slices":
        """So many, to be put in."""
        return cls(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_))

    def of(self, rows: Numbers) -> "Slices":
        """Some of them."""
        return Slices(self.start[rows], self.end[rows], self.is_null[rows])

    def put(self, rows: Numbers, other: "Slices") -> None:
        """Replace some of them."""
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs


class Headers(NamedTuple):
    """Of each record how many headers it has and which is its first, and all names and values."""

    counts: Numbers
    first: Numbers
    names: Slices
    values: Slices

    def of(self, rows: Numbers) -> "Headers":
        """Those of some records."""
        counts = self.counts[rows]
        first = np.cumsum(counts) - counts
        each = np.repeat(self.first[rows] - first, counts)
        each += np.arange(len(each))
        return Headers(counts, first, self.names.of(each), self.values.of(each))


class Fields:
    """The fields of records; what is not true of a record is in `is_bad`."""

    def __init__(self, data: Numbers, start: Numbers, end: Numbers) -> None:
        self._data, self._end = data, end
        _, at = read_varints(data, start)
        self.time_delta, at = read_varints(data, at + 1)  # 1: attributes, unused
        self.offset_delta, at = read_varints(data, at)
        self.key, at = _read_slices(data, at)
        self.value, at = _read_slices(data, at)
        self._header_count, self._headers_at = read_varints(data, at)
        self.is_bad: Bits = self._find_bad()

    def _find_bad(self) -> Bits:
        """Places only rise: a field leads out of its record if headers begin behind the end."""
        count, left = self._header_count, self._end - self._headers_at
        if not count.any() and not left.any():
            return np.zeros(len(left), np.bool_)
        return (count < 0) | (left < 0) | (count > left // 2) | ((count == 0) & (left != 0))

    def headers(self) -> Headers:
        """Read the first header of each record that has one, then the second ones, and so on.

        Completes `is_bad`.
        """
        data, at, end = self._data, self._headers_at.copy(), self._end
        counts = np.where(self.is_bad, 0, self._header_count)
        first = np.cumsum(counts) - counts
        total = int(counts.sum())
        names, values = Slices.empty(total), Slices.empty(total)
        rows = np.flatnonzero(counts)
        number = 0
        while len(rows):
            name, after = _read_slices(data, at[rows])
            value, after = _read_slices(data, after)
            names.put(first[rows] + number, name)
            values.put(first[rows] + number, value)
            at[rows] = after
            is_bad = (after > end[rows]) | name.is_null
            self.is_bad[rows[is_bad]] = True
            number += 1
            rows = rows[(counts[rows] > number) & ~is_bad]
        self.is_bad |= at != end
        return Headers(counts, first, names, values)


def _read_slices(data: Numbers, at: Numbers) -> tuple[Slices, Numbers]:
    """Lengths and where what they measure lies; a negative length means null."""
    size, start = read_varints(data, at)
    is_null = size < 0
    end = start + np.clip(size, 0, len(data))
    return Slices(start, end, is_null), end
