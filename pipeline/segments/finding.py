"""Finds where the records of many batches begin, with numpy.

A record is found only by the length of the one before. But chains of records are independent: one
step goes from one record to the next in all of them at once. Each batch is a chain, and a long one
is cut where a record seems to begin. That is only a guess: it is right if the chain before leads
there; otherwise the whole batch is walked through.
"""

from itertools import repeat
from typing import Final, NamedTuple

import numpy as np

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.records.varint import read_varint

from .varints import Bits, Numbers, read_varints

CHAINS_MIN: Final = 24
"""With fewer, steps in all of them take longer than walking through them one by one."""
_CHAIN_RECORDS: Final = range(32, 129)
_CHAINS: Final = 64
RECORD_BYTES_MIN: Final = 7  # its length, attributes, two deltas, two lengths, count of headers
_WINDOW_BYTES_MAX: Final = 1 << 13


def _steps() -> Numbers:
    """The size of a record in bytes, by its first two bytes.

    0: they do not tell, because the length has three bytes or more, or is negative.
    """
    first, second = np.arange(1 << 16) & 255, np.arange(1 << 16) >> 8
    length = np.where(first < 128, first, (first & 127) | second << 7)
    size = (length >> 1) + 1 + (first > 127)
    return np.where((length & 1 == 0) & ((first < 128) | (second < 128)), size, 0)


_STEPS: Final = _steps()


class Chains(NamedTuple):
    """Sequences of records: where each begins and ends, and how many records it has."""

    start: Numbers
    end: Numbers
    count: Numbers


class Found(NamedTuple):
    """Where each record begins and ends, in order, and which batches do not have their count."""

    start: Numbers
    end: Numbers
    is_malformed: Bits


def find_records(raw: bytes, batches: Chains, is_dense: Bits) -> Found:
    """Find the records of batches, which are in `raw` in rising order.

    `is_dense`: which batches should have offset deltas 0, 1, 2 and so on.  No batch may claim more
    records than it has room for.
    """
    row = np.cumsum(batches.count) - batches.count
    places = np.zeros(int(batches.count.sum()), np.int64)
    chains, owner = _cut(raw, batches, is_dense)
    is_malformed = np.zeros(len(row), np.bool_)
    is_malformed[owner[~_follow(raw, chains, places)]] = True
    parts = np.bincount(owner, minlength=len(row))
    for number in np.flatnonzero(is_malformed & (parts > 1)).tolist():
        found = _walk(raw, *(int(each[number]) for each in batches))
        if found is not None:
            places[row[number] : row[number] + len(found)] = found
            is_malformed[number] = False
    end = np.empty_like(places)
    end[:-1] = places[1:]
    some = np.flatnonzero(batches.count)
    end[row[some] + batches.count[some] - 1] = batches.end[some]
    return Found(places, end, is_malformed)


def _cut(raw: bytes, batches: Chains, is_dense: Bits) -> tuple[Chains, Numbers]:
    """Cut long batches into chains; returns these, and the batch number of each."""
    start, end, count = batches
    everything = np.arange(len(start))
    records = int(count.sum())
    length = min(max(records // _CHAINS, _CHAIN_RECORDS[0]), _CHAIN_RECORDS[-1])
    cuts = np.where(is_dense, np.maximum(count // length - 1, 0), 0)
    if not cuts.any():
        return batches, everything
    owner = np.repeat(everything, cuts)
    part = 1 + np.arange(len(owner)) - np.repeat(np.cumsum(cuts) - cuts, cuts)
    wanted = start[owner] + (end - start)[owner] * part // (cuts + 1)[owner]
    window = min(3 * int((end - start).sum()) // records, _WINDOW_BYTES_MAX)
    place, delta, which = _guess(raw, wanted, window)
    owner = owner[which]
    # Near the end of the bytes the window starts before the wanted place, maybe in another batch.
    is_inside = (start[owner] < place) & (place < end[owner]) & (delta < count[owner])
    starts = np.concatenate([start, place[is_inside]])
    order = np.argsort(starts, kind="stable")
    starts = starts[order]
    owner = np.concatenate([everything, owner[is_inside]])[order]
    row = np.concatenate([0 * start, delta[is_inside]])[order] + (np.cumsum(count) - count)[owner]
    counts = np.diff(row, append=records)  # negative after a wrong guess: no chain has so many
    ends = np.where(np.diff(owner, append=-1) == 0, np.append(starts[1:], 0), end[owner])
    return Chains(starts, ends, counts), owner


def _guess(raw: bytes, wanted: Numbers, window: int) -> tuple[Numbers, Numbers, Numbers]:
    """The first place in each window where a record seems to begin, its offset delta, and the
    number of the window.

    A record's attributes, after its length, are zero, and so are those of the next record, which
    has the next offset delta.
    """
    data = np.frombuffer(raw, np.uint8)
    windows = np.ndarray((len(raw) - window + 1, window), np.uint8, raw, strides=(1, 1))
    wanted = np.minimum(wanted, len(windows) - 1)
    which, behind = np.divmod(np.flatnonzero(windows[wanted] == 0), window)
    zero = wanted[which] + behind
    start = zero - 1 - (data.take(zero - 2, mode="clip") > 127)
    size, at = read_varints(data, start)
    following = at + size
    _, at = read_varints(data, following)
    seems = (size > 0) & (data.take(at, mode="clip") == 0)
    start, following, which = start[seems], following[seems], which[seems]
    delta = _offset_delta(data, start)
    seems = (delta > 0) & (_offset_delta(data, following) == delta + 1)
    which, first = np.unique(which[seems], return_index=True)
    return start[seems][first], delta[seems][first], which


def _offset_delta(data: Numbers, start: Numbers) -> Numbers:
    """The offset deltas of records that begin at these places."""
    _, at = read_varints(data, start)
    _, at = read_varints(data, at + 1)
    return read_varints(data, at)[0]


def _follow(raw: bytes, chains: Chains, places: Numbers) -> Bits:
    """Note where the records of chains begin; returns which chains are valid."""
    count = chains.count
    row = np.cumsum(count) - count
    at, next_row = _step(raw, chains, row, places)
    is_whole = (at == chains.end) & (next_row == row + count)
    some = np.flatnonzero(count)
    is_whole[some] &= places[row[some] + count[some] - 1] < chains.end[some]
    for number in np.flatnonzero(~is_whole).tolist():
        first, after = int(row[number]), int(row[number] + count[number])
        position = int(at[number])
        # Where a step did not advance, the same place was noted repeatedly.
        first += int(np.searchsorted(places[first : next_row[number]], position))
        found = _walk(raw, position, int(chains.end[number]), after - first)
        if found is not None:
            places[first:after] = found
            is_whole[number] = True
    return is_whole


def _step(raw: bytes, chains: Chains, row: Numbers, places: Numbers) -> tuple[Numbers, Numbers]:
    """Note where records begin, from their chain's row on; returns where to continue each."""
    order = np.argsort(-chains.count, kind="stable")  # so that those that go on come first
    at, next_row, count = chains.start[order], row[order], chains.count[order]
    most = int(count.max(initial=0))
    going = len(count) - np.searchsorted(count[::-1], np.arange(most), side="right")
    pairs = np.ndarray(max(0, len(raw) - 1), "<u2", raw, strides=(1,))
    try:
        for number in going[going >= CHAINS_MIN].tolist():
            here = at[:number]
            places[next_row[:number]] = here
            here += _STEPS[pairs[here]]
            next_row[:number] += 1
    except IndexError:
        pass  # a length led out of the bytes: walk from here
    back = np.argsort(order)
    return at[back], next_row[back]


def _walk(raw: bytes, position: int, end: int, count: int) -> list[int] | None:
    """Where the records of one chain begin; None: it does not have so many records.

    A length is encoded as twice the number of bytes that follow it, seven bits per byte.
    """
    found: list[int] = []
    odd = 0
    try:
        for _ in repeat(None, count):
            found.append(position)
            first = raw[position]
            odd |= first
            if first < 128:
                position += 1 + (first >> 1)
            elif (second := raw[position + 1]) < 128:
                position += 2 + (second << 6) + ((first - 128) >> 1)
            else:
                size_bytes, position = read_varint(raw, position)
                position += max(size_bytes, 0)
    except (IndexError, MalformedMessage):
        return None
    if odd & 1 or position != end or (found and found[-1] >= end):
        return None
    return found
