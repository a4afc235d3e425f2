"""The input and output of an assignor for consumer groups (KIP-848)."""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; topics without partitions are left out."""


class MemberSpec(NamedTuple):
    """One member: its subscribed topics, and its previous target assignment."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group. `topics` holds every subscribed topic with its partition count."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members subscribe to the same topics."""
        wanted = {member.topic_ids for member in self.members.values()}
        return len(wanted) <= 1


Assignment = dict[str, dict[bytes, frozenset[int]]]
"""The target of every member, including members without partitions."""

Assignor = Callable[[GroupSpec], Assignment]

_HALVES: Final = Struct(">qq")


def topic_order(topic_id: bytes) -> tuple[int, int]:
    """The sort key of a topic id; Kafka compares the halves as signed numbers."""
    most, least = _HALVES.unpack(topic_id)
    return most, least
