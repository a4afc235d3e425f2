"""The range assignor: every subscriber of a topic gets one range of consecutive partitions.

The order of the members is the same for all topics. So topics with the same number of partitions
and the same subscribers are divided alike, and records with the same key in them go to the same
member. Static members come first, ordered by instance id, so that a restart changes nothing.
Nothing else is sticky.

Source: RangeAssignor of Apache Kafka 4.3.1.
"""

from collections import Counter

from .spec import Assignment, GroupSpec


def assign_ranges(spec: GroupSpec) -> Assignment:
    """Divide every topic into ranges, the longer ones first."""
    subscribers = Counter(
        topic_id for member in spec.members.values() for topic_id in member.topic_ids
    )
    rest = {topic_id: (spec.topics[topic_id], count) for topic_id, count in subscribers.items()}
    target: Assignment = {}
    for member_id in _line(spec):
        mine: dict[bytes, frozenset[int]] = {}
        for topic_id in spec.members[member_id].topic_ids:
            partitions_left, members_left = rest[topic_id]
            size = -(-partitions_left // members_left)
            if size:
                start = spec.topics[topic_id] - partitions_left
                mine[topic_id] = frozenset(range(start, start + size))
            rest[topic_id] = partitions_left - size, members_left - 1
        target[member_id] = mine
    return target


def _line(spec: GroupSpec) -> list[str]:
    """The members in the order in which they get their ranges."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = spec.members[member_id].instance_id
        return instance_id is None, member_id if instance_id is None else instance_id

    return sorted(spec.members, key=place)
