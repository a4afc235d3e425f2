"""Which replicas to move so that brokers can leave, be replaced, or share topics evenly.

A plan moves as few replicas as its purpose needs. A replica takes the exact place of the one that
it replaces, so a preferred leader stays one on its new broker, and all others stay. A place is
filled from a rack in which the partition has no replica, if there is one, and then by the broker
that holds the fewest replicas.

Racks count only if every live broker names one, as when replicas are assigned.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from .assignment import BrokerRack
from .partition_state import TopicPartition

Assignments = Mapping[TopicPartition, Sequence[int]]


class PlanImpossible(Exception):
    """There is no place for a replica; the message is one sentence."""


class Plan(NamedTuple):
    """The new replicas of the partitions that change, the preferred leader first."""

    replicas: dict[TopicPartition, tuple[int, ...]]
    fewer_racks: list[TopicPartition]
    """Partitions whose replicas will be in fewer racks than now."""


class Link(NamedTuple):
    """The brokers of a copy: from a partition's leader (-1: it has none) to a new replica."""

    source: int
    target: int


class Copies(NamedTuple):
    """What is copied over one link."""

    replica_count: int
    size_bytes: int


def drain(
    assignments: Assignments, brokers: Iterable[BrokerRack], leaving: Collection[int]
) -> Plan:
    """Empty the brokers in `leaving`: each of their replicas moves to another live broker.

    Raises: PlanImpossible.
    """
    layout = _Layout(assignments, brokers)
    layout.vacate(leaving, layout.live - set(leaving))
    return layout.plan()


def replace(
    assignments: Assignments, brokers: Iterable[BrokerRack], replaced: Mapping[int, int]
) -> Plan:
    """Replace old brokers, which may be down, with new ones: old -> new.

    If the new broker already holds a replica, the old one's moves to another live broker.
    Raises: PlanImpossible.
    """
    layout = _Layout(assignments, brokers)
    if missing := sorted(set(replaced.values()) - layout.live):
        raise PlanImpossible(f"broker {missing[0]} is not alive")
    if both := sorted(set(replaced) & set(replaced.values())):
        raise PlanImpossible(f"broker {both[0]} can't both go and take over")
    for key, replicas in layout.replicas.items():
        for old in replicas[:]:
            new = replaced.get(old)
            if new is not None and new not in replicas:
                layout.move(key, old, new)
    layout.vacate(replaced, layout.live - set(replaced))
    return layout.plan()


def spread(
    assignments: Assignments, brokers: Iterable[BrokerRack], targets: Collection[int]
) -> Plan:
    """Place partitions on `targets` only, as evenly as single moves can achieve.

    Raises: PlanImpossible.
    """
    layout = _Layout(assignments, brokers)
    if missing := sorted(set(targets) - layout.live):
        raise PlanImpossible(f"broker {missing[0]} is not alive")
    layout.vacate(set(layout.load) - set(targets), set(targets))
    while layout.even_out(sorted(targets)):
        pass  # a move may make further moves possible
    return layout.plan()


def copies(
    plan: Plan,
    before: Assignments,
    leaders: Mapping[TopicPartition, int],
    size_bytes: Mapping[TopicPartition, int],
) -> dict[Link, Copies]:
    """What a plan copies over each link; `size_bytes` of one replica of each partition."""
    links: dict[Link, Copies] = {}
    for key, replicas in plan.replicas.items():
        for target in replicas:
            if target not in before[key]:
                link = Link(leaders.get(key, -1), target)
                count, size = links.get(link, (0, 0))
                links[link] = Copies(count + 1, size + size_bytes.get(key, 0))
    return dict(sorted(links.items()))


class _Layout:
    """Replicas that are moved one by one, and the number that each broker holds."""

    def __init__(self, assignments: Assignments, brokers: Iterable[BrokerRack]) -> None:
        racks = {broker.broker_id: broker.rack for broker in brokers}
        self.live = set(racks)
        self._racks = racks if racks and None not in racks.values() else {}
        self._before = assignments
        self.replicas = {key: list(assignments[key]) for key in sorted(assignments)}
        self.load = Counter(b for replicas in self.replicas.values() for b in replicas)
        self.leads = Counter(replicas[0] for replicas in self.replicas.values() if replicas)

    def move(self, key: TopicPartition, old: int, new: int) -> None:
        """Replace one replica with another."""
        replicas = self.replicas[key]
        place = replicas.index(old)
        replicas[place] = new
        self.load[old] -= 1
        self.load[new] += 1
        if place == 0:
            self.leads[old] -= 1
            self.leads[new] += 1

    def vacate(self, leaving: Collection[int], targets: Collection[int]) -> None:
        """Move every replica of `leaving` to one of `targets`.  Raises: PlanImpossible."""
        for key, replicas in self.replicas.items():
            for old in [replica for replica in replicas if replica in leaving]:
                self.move(key, old, self._place_for(key, old, leaving, targets))

    def _place_for(
        self, key: TopicPartition, old: int, leaving: Collection[int], targets: Collection[int]
    ) -> int:
        replicas = self.replicas[key]
        free = [broker for broker in targets if broker not in replicas]
        if not free:
            topic, partition = key
            raise PlanImpossible(
                f"no broker is left for a replica of {topic}-{partition}, "
                f"which has {len(replicas)} of them"
            )
        staying = [replica for replica in replicas if replica not in leaving]
        used = {self._racks.get(replica) for replica in staying}
        counted = self.leads if replicas[0] == old else Counter[int]()

        def cost(broker: int) -> tuple[bool, int, int, int]:
            rack_is_used = bool(self._racks) and self._racks[broker] in used
            return rack_is_used, self.load[broker], counted[broker], broker

        return min(free, key=cost)

    def even_out(self, targets: Sequence[int]) -> bool:
        """Move replicas from brokers that hold too many to brokers that hold too few.

        Whether any was moved.  It terminates: every move brings the two brokers closer to each
        other.
        """
        has_moved = False
        share, rest = divmod(sum(self.load[broker] for broker in targets), len(targets))
        by_load = sorted(targets, key=lambda broker: (-self.load[broker], broker))
        due = {broker: share + (index < rest) for index, broker in enumerate(by_load)}
        leads_due = -(-len(self.replicas) // len(targets))
        for giver in by_load:
            if self.load[giver] <= due[giver]:
                continue
            held = [key for key, replicas in self.replicas.items() if giver in replicas]
            for wants_leader in (self.leads[giver] > leads_due, None):
                for key in held:
                    if self.load[giver] <= due[giver]:
                        break
                    replicas = self.replicas[key]
                    leads = replicas[0] == giver
                    if giver in replicas and wants_leader in (leads, None):
                        has_moved |= self._give(key, giver, due)
        return has_moved

    def _give(self, key: TopicPartition, giver: int, due: Mapping[int, int]) -> bool:
        """Move one replica away, if some broker lacks it and no rack is lost by that."""
        replicas = self.replicas[key]
        rack_count = self._rack_count(replicas)
        lacking = [b for b in due if self.load[b] < due[b] and b not in replicas]
        for taker in sorted(lacking, key=lambda b: (self.load[b] - due[b], self.leads[b], b)):
            moved = [taker if replica == giver else replica for replica in replicas]
            if self._rack_count(moved) >= rack_count:
                self.move(key, giver, taker)
                return True
        return False

    def _rack_count(self, replicas: Iterable[int]) -> int:
        return len({self._racks[replica] for replica in replicas if replica in self._racks})

    def plan(self) -> Plan:
        """The differences from the initial layout."""
        changed = {
            key: tuple(replicas)
            for key, replicas in self.replicas.items()
            if replicas != list(self._before[key])
        }
        fewer = [
            key
            for key, replicas in changed.items()
            if self._rack_count(replicas) < self._rack_count(self._before[key])
        ]
        return Plan(changed, fewer)
