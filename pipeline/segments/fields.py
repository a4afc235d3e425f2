"""Reads the fields of many records together, with numpy."""

from typing import NamedTuple

import numpy as np

from .varints import Bits, Numbers, read_varints


class Slices(NamedTuple):
    """Slices of the bytes; null ones have length 0."""

    start: Numbers
    end: Numbers
    is_null: Bits

    @classmethod
    def empty(cls, size: int) -> "Slices":
        """`size` slices to be filled by `put`."""
        return cls(np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size, np.bool_))

    def of(self, rows: Numbers) -> "Slices":
        """The slices of some rows."""
        return Slices(self.start[rows], self.end[rows], self.is_null[rows])

    def put(self, rows: Numbers, other: "Slices") -> None:
        """Replace the slices of some rows."""
        for mine, theirs in zip(self, other, strict=True):
            mine[rows] = theirs


class Headers(NamedTuple):
    """For each record, its number of headers and the index of its first; all names and values."""

    counts: Numbers
    first: Numbers
    names: Slices
    values: Slices

    def of(self, rows: Numbers) -> "Headers":
        """The headers of some records."""
        counts = self.counts[rows]
        first = np.cumsum(counts) - counts
        each = np.repeat(self.first[rows] - first, counts)
        each += np.arange(len(each))
        return Headers(counts, first, self.names.of(each), self.values.of(each))


class Fields:
    """The fields of records; `is_bad` marks invalid records."""

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
        """Positions only rise: if headers begin after the record's end, a field exceeds it."""
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
    """Read lengths, and find the slices that follow them; a negative length means null."""
    size, start = read_varints(data, at)
    is_null = size < 0
    end = start + np.clip(size, 0, len(data))
    return Slices(start, end, is_null), end
