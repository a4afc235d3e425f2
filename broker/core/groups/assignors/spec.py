"""What an assignor of a consumer group (KIP-848) is told, and what it answers."""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Final, NamedTuple

Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; no topic without any."""


class MemberSpec(NamedTuple):
    """One member: what it wants, and what it was given last time (its target)."""

    instance_id: str | None
    rack_id: str | None
    topic_ids: frozenset[bytes]
    assigned: Partitions


class GroupSpec(NamedTuple):
    """A group. Every topic that a member wants is in `topics`, with its partition count."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[bytes, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members want the same topics."""
        wanted = {member.topic_ids for member in self.members.values()}
        return len(wanted) <= 1


Assignment = dict[str, dict[bytes, frozenset[int]]]
"""The target of every member, also of those who get nothing."""

Assignor = Callable[[GroupSpec], Assignment]

_HALVES: Final = Struct(">qq")


def topic_order(topic_id: bytes) -> tuple[int, int]:
    """The sort key of a topic id: Kafka compares two signed halves."""
    most, least = _HALVES.unpack(topic_id)
    return most, least
