"""Random batches, whole and damaged: what finds their records has to agree with a plain walk.

Runs where numpy is.  Arguments: the seeds, as a range.
"""

import random
import sys

import numpy as np

from odradek.pipeline.segments import finding
from odradek.protocol.records import Record, build_batch

HEADER_BYTES = 61


def value(dice: random.Random, number: int) -> bytes:
    """Bytes, zeros, or what looks like records with the offset deltas that are expected here."""
    kind = dice.randrange(6)
    if kind < 3:
        return b"v" * dice.choice([0, 1, 40, 100])
    if kind == 3:
        return bytes(dice.randrange(60))
    near = max(1, number + dice.randrange(-90, 90))
    records = [Record(near + n, 0, None, b"") for n in range(dice.randrange(2, 5))]
    records[0].offset = max(0, near - near % 2)
    return bytes(build_batch(records, base_offset=0)[HEADER_BYTES:])


def records_of(dice: random.Random) -> tuple[bytes, int]:
    """The bytes of a batch's records, which may be wrong, and their count."""
    count = dice.choice([0, 1, 5, 70, 300, 900])
    size = dice.choice([0, 9_000]) if dice.random() < 0.2 else 0
    records = [Record(n, dice.randrange(200), None, value(dice, n)) for n in range(count)]
    if dice.random() < 0.1:  # so long that where a guess is looked for, the next batch may lie
        records = [Record(n, 0, None, bytes([1]) * 3_000) for n in range(count)]
    if records and size:
        dice.choice(records).value = bytes(size)
    data = bytearray(build_batch(records, base_offset=0, last_offset=max(0, count - 1)))
    body = data[HEADER_BYTES:]
    if body and dice.random() < 0.3:
        for _ in range(dice.randrange(4)):
            body[dice.randrange(len(body))] = dice.choice([0, 1, 128, 255, dice.randrange(256)])
        count = max(0, count + dice.choice([0, 0, 1, -1]))
    if dice.random() < 0.1:
        body = body[: dice.randrange(len(body) + 1)]
    return bytes(body), min(count, len(body) // finding.RECORD_BYTES_MIN)


def large_and_small(dice: random.Random) -> list[tuple[bytes, int]]:
    """The last batch is smaller than what is searched for a place to cut it."""
    sizes = [dice.randrange(20_000)] * dice.randrange(1, 63) + [100] * dice.randrange(1, 9)
    parts = []
    for values in (sizes, [1] * dice.randrange(64, 200)):
        records = [Record(n, 0, None, b"v" * size) for n, size in enumerate(values)]
        parts.append((bytes(build_batch(records, base_offset=0)[HEADER_BYTES:]), len(records)))
    return parts


def check(seed: int) -> None:
    """One seed."""
    dice = random.Random(seed)
    parts = [records_of(dice) for _ in range(dice.choice([1, 3, 40]))]
    if seed % 4 == 0:
        parts += large_and_small(dice)
    raw = bytes(7) + b"".join(body for body, _ in parts)
    sizes = np.array([len(body) for body, _ in parts])
    end = 7 + np.cumsum(sizes)
    batches = finding.Chains(end - sizes, end, np.array([count for _, count in parts]))
    found = finding.find_records(raw, batches, np.array([dice.random() < 0.9 for _ in parts]))
    row = 0
    for number, (first, last, count) in enumerate(zip(*(b.tolist() for b in batches), strict=True)):
        expected = finding._walk(raw, first, last, count)
        assert found.is_malformed[number] == (expected is None), (seed, number)
        if expected is not None:
            assert found.start[row : row + count].tolist() == expected, (seed, number)
            ends = [*expected[1:], last] if expected else []
            assert found.end[row : row + count].tolist() == ends, (seed, number)
        row += count


if __name__ == "__main__":
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        check(seed)
