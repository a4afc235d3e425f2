"""Sides of an audit made of plain records, as Spark would sum them up, and a naive comparison."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from odradek.pipeline.audit_compare import (
    NEVER,
    Checksum,
    Comparison,
    Digest,
    Finding,
    Place,
    Side,
    State,
    What,
    compare,
    suspects,
)
from odradek.pipeline.offsets import TopicPartition

TOPIC = "t"


class Record(NamedTuple):
    partition: int
    offset: int
    content: str


@dataclass(frozen=True)
class Model:
    """One side."""

    name: str
    records: tuple[Record, ...]
    starts: Mapping[int, int]
    ends: Mapping[int, int]
    early_differs: bool = False
    late: State = State.DIFFERENT

    def side(self, size: int) -> Side:
        return Side(
            self.name,
            digests(self.records, size),
            {TopicPartition(TOPIC, key): value for key, value in self.starts.items()},
            {TopicPartition(TOPIC, key): value for key, value in self.ends.items()},
            self.early_differs,
            self.late,
        )

    def at(self) -> dict[tuple[int, int], Counter[str]]:
        """The contents at each partition and offset."""
        found: dict[tuple[int, int], Counter[str]] = defaultdict(Counter)
        for record in self.records:
            found[record.partition, record.offset][record.content] += 1
        return found

    def why_absent(self, partition: int, offset: int) -> What:
        if offset < self.starts.get(partition, 0):
            return What.REMOVED
        return What.LATE if offset >= self.ends.get(partition, NEVER) else What.MISSING


def audited(left: Model, right: Model, size: int) -> Comparison:
    """The audit's result: digests, then a closer look at what they make suspect."""
    ours, theirs = left.side(size), right.side(size)
    places = suspects(ours, theirs, types=True)
    found = [one for one in closer_look(left, right, size) if one.place in places]
    return compare(ours, theirs, found, size=size)


def closer_look(left: Model, right: Model, size: int) -> Iterable[Finding]:
    """What Spark finds: one offset at a time, then summed up for each range."""
    totals: dict[tuple[Place, What, str], Finding] = {}
    for one in _by_offset(left, right, size):
        key = (one.place, one.what, one.side)
        before = totals.get(key, replace(one, count=0))
        totals[key] = replace(before, count=before.count + one.count, offset_last=one.offset_last)
    return totals.values()


def _by_offset(left: Model, right: Model, size: int) -> Iterator[Finding]:
    ours, theirs = left.at(), right.at()
    for partition, offset in sorted(ours.keys() | theirs.keys()):
        place = Place(TOPIC, partition, offset - offset % size)
        sides = [(left, ours[partition, offset]), (right, theirs[partition, offset])]
        for model, contents in sides:
            if not contents:
                what = model.why_absent(partition, offset)
                yield Finding(place, what, model.name, 1, offset, offset)
            if contents.total() > 1:
                extra = contents.total() - 1
                yield Finding(place, What.DOUBLED, model.name, extra, offset, offset)
        if all(contents for _, contents in sides) and set(sides[0][1]) != set(sides[1][1]):
            yield Finding(place, What.CHANGED, "", 1, offset, offset)


def naive_state(left: Model, right: Model) -> State:
    """The same question without ranges, digests and findings."""
    ours, theirs = left.at(), right.at()
    state = State.EQUAL
    for partition, offset in ours.keys() | theirs.keys():
        mine, other = ours[partition, offset], theirs[partition, offset]
        if mine == other:
            continue
        absent = left if not mine else right if not other else None
        if absent is None or (mine + other).total() > 1:
            return State.DIFFERENT
        if offset < absent.starts.get(partition, 0):
            found = State.DIFFERENT if absent.early_differs else State.EQUAL
        elif offset >= absent.ends.get(partition, NEVER):
            found = absent.late
        else:
            found = State.DIFFERENT
        if found is State.DIFFERENT:
            return found
        state = found if found is State.BEHIND else state
    return state


def digests(records: Iterable[Record], size: int) -> dict[Place, Digest]:
    by_place: dict[Place, list[Record]] = defaultdict(list)
    for record in records:
        start = record.offset - record.offset % size
        by_place[Place(TOPIC, record.partition, start)].append(record)
    return {
        place: Digest(
            len(found),
            min(record.offset for record in found),
            max(record.offset for record in found),
            checksum(record.content for record in found),
            checksum(f"{record.offset} {record.content}" for record in found),
        )
        for place, found in by_place.items()
    }


def checksum(texts: Iterable[str]) -> Checksum:
    xor = total = 0
    for text in texts:
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
        xor, total = xor ^ number, total + (number >> 32)
    return Checksum(xor, total)
