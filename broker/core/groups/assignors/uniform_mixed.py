"""The uniform assignor for members with different subscriptions.

All members keep the partitions of topics they still subscribe to. Then, topic by topic and the
highest load per subscriber first, each vacant partition goes to the subscriber with the fewest
partitions. Finally, in rounds over the topics, partitions move from the subscriber with the most
partitions to the one with the fewest, until no move helps. This is not always the best balance (a
chain of moves over two topics may be better), but it is Kafka's.

Source: UniformHeterogeneousAssignmentBuilder of Apache Kafka 4.3.1.
"""

from collections import defaultdict
from typing import Final

from .spec import Assignment, GroupSpec, topic_order

ROUNDS_MAX: Final = 16
"""Overlapping subscriptions converge slowly; each round about halves the remaining imbalance."""


def assign_mixed(spec: GroupSpec) -> Assignment:
    """Spread the partitions as evenly as the subscriptions allow."""
    return _Mixed(spec).assignment()


class _Mixed:
    """The algorithm; members are numbered in the order of their ids."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = sorted(spec.members)
        self._subscribers: defaultdict[bytes, list[int]] = defaultdict(list)
        for member, member_id in enumerate(self._member_ids):
            for topic_id in spec.members[member_id].topic_ids:
                self._subscribers[topic_id].append(member)
        self._topics = sorted(self._subscribers, key=self._crowding)
        self._owners: dict[bytes, list[int | None]] = {
            topic_id: [None] * spec.topics[topic_id] for topic_id in self._topics
        }
        self._loads = [0] * len(self._member_ids)

    def _crowding(self, topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
        """The sort key of a topic: most partitions per subscriber, then fewest subscribers."""
        subscribers = len(self._subscribers[topic_id])
        return -self._spec.topics[topic_id] / subscribers, subscribers, topic_order(topic_id)

    def assignment(self) -> Assignment:
        """Keep previous partitions, assign vacant ones, then balance."""
        self._keep()
        for topic_id in self._topics:
            self._fill(topic_id)
        self._balance([topic for topic in self._topics if len(self._subscribers[topic]) > 1])
        target: list[defaultdict[bytes, set[int]]] = [defaultdict(set) for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for partition, owner in enumerate(owners):
                assert owner is not None
                target[owner][topic_id].add(partition)
        return {
            member_id: {topic_id: frozenset(some) for topic_id, some in mine.items()}
            for member_id, mine in zip(self._member_ids, target, strict=True)
        }

    def _keep(self) -> None:
        for member, member_id in enumerate(self._member_ids):
            spec = self._spec.members[member_id]
            for topic_id in spec.topic_ids & spec.assigned.keys():
                owners = self._owners[topic_id]
                for partition in spec.assigned[topic_id]:
                    if partition < len(owners) and owners[partition] is None:
                        self._give(topic_id, partition, member)

    def _give(self, topic_id: bytes, partition: int, member: int) -> None:
        owners = self._owners[topic_id]
        before = owners[partition]
        if before is not None:
            self._loads[before] -= 1
        owners[partition] = member
        self._loads[member] += 1

    def _fill(self, topic_id: bytes) -> None:
        vacant = [p for p, owner in enumerate(self._owners[topic_id]) if owner is None]
        if vacant:
            levels = _Levels(self._subscribers[topic_id], self._loads)
            for partition in vacant:
                self._give(topic_id, partition, levels.next_low())

    def _balance(self, topics: list[bytes]) -> None:
        """Balance the topics in rounds until one full round moves nothing, or `ROUNDS_MAX`."""
        stop_at: bytes | None = None
        for _ in range(ROUNDS_MAX):
            for topic_id in topics:
                if topic_id == stop_at:
                    return
                if self._balance_topic(topic_id) or stop_at is None:
                    stop_at = topic_id

    def _balance_topic(self, topic_id: bytes) -> bool:
        """Move partitions of a topic from subscribers with the most to those with the fewest.

        Returns whether any was moved.
        """
        levels = _Levels(self._subscribers[topic_id], self._loads)
        if levels.spread <= 1:
            return False
        # The partitions of each owner at the start; the last one is given away first.
        owned: defaultdict[int | None, list[int]] = defaultdict(list)
        for partition, owner in enumerate(self._owners[topic_id]):
            owned[owner].append(partition)
        moved = False
        while True:
            giver = levels.next_high()
            while giver is not None and not owned[giver]:
                levels.drop_high()
                giver = levels.next_high()
            if giver is None:
                return moved
            partition = owned[giver].pop()
            taker = levels.next_low()
            if levels.is_level:
                return moved
            self._give(topic_id, partition, taker)
            moved = True


class _Levels:
    """The subscribers of a topic in the order of their loads, accessed from both ends.

    `next_low` cycles through the members with the lowest load. Once each has got one, the lowest
    level rises by one, and members of that load are included. `next_high` does the same from above,
    downwards. `loads` is the caller's list: the caller must update it before the next call.
    """

    __slots__ = (
        "_high", "_high_at", "_high_end", "_high_start",
        "_loads", "_low", "_low_at", "_low_end", "_members",
    )  # fmt: skip

    def __init__(self, subscribers: list[int], loads: list[int]) -> None:
        self._loads = loads
        self._members = sorted(subscribers, key=lambda member: (loads[member], member))
        self._low = loads[self._members[0]] - 1
        self._low_at = self._low_end = 0
        self._high = loads[self._members[-1]] + 1
        self._high_start = self._high_end = len(self._members)
        self._high_at = self._high_start - 1

    @property
    def spread(self) -> int:
        """The difference between the highest and the lowest load, before any move."""
        return self._loads[self._members[-1]] - self._loads[self._members[0]]

    @property
    def is_level(self) -> bool:
        """Whether a move from the last high to the last low would not help."""
        return self._high - self._low <= 1

    def next_low(self) -> int:
        """The member that gets the next partition."""
        if self._low_at >= self._low_end:
            self._low += 1
            while self._low_end < len(self._members) and self._load_at(self._low_end) == self._low:
                self._low_end += 1
            self._low_at = 0
        self._low_at += 1
        return self._members[self._low_at - 1]

    def next_high(self) -> int | None:
        """The member that gives the next partition away; None: no member is left."""
        if self._high_at < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high = self._load_at(self._high_start - 1)  # all members above were dropped
            else:
                self._high -= 1
            while self._high_start > 0 and self._load_at(self._high_start - 1) == self._high:
                self._high_start -= 1
            self._high_at = self._high_end - 1
        if self._high_at < 0:
            return None
        self._high_at -= 1
        return self._members[self._high_at + 1]

    def drop_high(self) -> None:
        """Leave out the member that `next_high` returned last: it has nothing to give."""
        at, last = self._high_at + 1, self._high_end - 1
        members = self._members
        members[at], members[last] = members[last], members[at]
        self._high_end = last

    def _load_at(self, index: int) -> int:
        return self._loads[self._members[index]]
