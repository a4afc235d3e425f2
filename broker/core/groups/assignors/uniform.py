"""The uniform assignor: all members get the same number of partitions and keep what they can.

Balance has priority over stickiness. If all members subscribe to the same topics, one pass finds
the assignment with the fewest moves; otherwise see `uniform_mixed`.

Members and topics are processed in the order of their ids, so that the result is deterministic.
(Kafka uses the order of its hash tables.)

Source: UniformAssignor of Apache Kafka 4.3.1.
"""

from collections.abc import Iterator
from itertools import islice

from .spec import Assignment, GroupSpec, MemberSpec, topic_order
from .uniform_mixed import assign_mixed


def assign_uniformly(spec: GroupSpec) -> Assignment:
    """Spread the partitions evenly over their subscribers."""
    if not spec.is_homogeneous:
        return assign_mixed(spec)
    return _Homogeneous(spec).assignment() if spec.members else {}


class _Homogeneous:
    """The case of equal subscriptions: each member gets the same number, or one more."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        wanted = next(iter(spec.members.values())).topic_ids
        self._topics = sorted(wanted, key=topic_order)
        self._kept: dict[str, dict[bytes, set[int]]] = {}
        self._owned: set[tuple[bytes, int]] = set()
        self._revoked: dict[tuple[bytes, int], None] = {}
        self._vacancies: list[tuple[str, int]] = []

    def assignment(self) -> Assignment:
        """Let members keep partitions up to their quota, then distribute the rest."""
        self._keep()
        vacant = iter(self._vacant())
        for member_id, quota in self._vacancies:
            mine = self._kept[member_id]
            for topic_id, partition in islice(vacant, quota):
                mine.setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(some) for topic_id, some in mine.items()}
            for member_id, mine in self._kept.items()
        }

    def _keep(self) -> None:
        """Fill `_kept`, `_owned`, `_revoked` and `_vacancies`."""
        total = sum(self._spec.topics[topic_id] for topic_id in self._topics)
        count = len(self._spec.members)
        quota_min, extras = divmod(total, count)
        for number, member_id in enumerate(sorted(self._spec.members)):
            quota = quota_min + (extras > 0)
            mine = self._kept[member_id] = {}
            for item in self._assigned(self._spec.members[member_id]):
                if quota:
                    quota -= 1
                    self._owned.add(item)
                    mine.setdefault(item[0], set()).add(item[1])
                else:
                    self._revoked[item] = None
            # The extra partitions go to members that already own that many, unless all remaining
            # members are needed to take them.
            if quota and extras and count - number > extras:
                quota -= 1
            elif extras:
                extras -= 1
            if quota:
                self._vacancies.append((member_id, quota))

    def _assigned(self, member: MemberSpec) -> Iterator[tuple[bytes, int]]:
        """A member's previous partitions that still exist and that no earlier member has kept."""
        for topic_id in self._topics:
            count = self._spec.topics[topic_id]
            for partition in sorted(member.assigned.get(topic_id, ())):
                if partition < count and (topic_id, partition) not in self._owned:
                    yield topic_id, partition

    def _vacant(self) -> list[tuple[bytes, int]]:
        """The partitions without an owner: first those no member had, then the revoked ones."""
        everything = (
            (topic_id, partition)
            for topic_id in self._topics
            for partition in range(self._spec.topics[topic_id])
        )
        taken = self._owned | self._revoked.keys()
        never = [item for item in everything if item not in taken]
        return never + [item for item in self._revoked if item not in self._owned]
