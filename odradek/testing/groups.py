"""Groups of the brokers under test: `broker.groups["g"].offsets`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .door import AdminClients, NotFound

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as it was when it was asked for."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: Mapping[str, list[int]]
    """The partitions of each topic."""


class Group:
    """One group; each attribute is asked for when it is read.

    A group that does not exist has the state `Dead`, no members and no offsets, as in Kafka.
    """

    def __init__(self, admins: AdminClients, group_id: str) -> None:
        self._admins = admins
        self.group_id = group_id

    def __repr__(self) -> str:
        return f"<Group {self.group_id}>"

    @property
    def state(self) -> str:
        """Kafka's name: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead, ..."""
        return str(self._described()["state"])

    @property
    def members(self) -> list[Member]:
        """The members with what they are assigned."""
        return [Member(**each) for each in self._described()["members"]]

    @property
    def offsets(self) -> dict[TopicPartition, int]:
        """The committed offsets by topic and partition."""
        return {
            (each["topic"], each["partition"]): each["offset"]
            for each in self._described()["offsets"]
        }

    @property
    def lag(self) -> dict[TopicPartition, int]:
        """How many offsets each committed offset is behind the high watermark."""
        ends = {
            (each["topic"], each["partition"]): each["lag"] for each in self._described()["offsets"]
        }
        return {key: lag for key, lag in ends.items() if lag is not None}

    def _described(self) -> Mapping[str, Any]:
        try:
            described: Mapping[str, Any] = self._admins.ask_where_it_is(
                lambda admin: admin.get("groups", self.group_id)
            )
        except NotFound:
            return {"state": "Dead", "members": [], "offsets": []}
        return described


class Groups:
    """The groups: `groups["g"]`, `for group_id in groups`."""

    def __init__(self, admins: AdminClients) -> None:
        self._admins = admins

    def __getitem__(self, group_id: str) -> Group:
        return Group(self._admins, group_id)

    def __iter__(self) -> Iterator[str]:
        """The ids of all groups, sorted."""
        listed = (group for admin in self._admins for group in admin.get("groups")["groups"])
        return iter(sorted({group["group_id"] for group in listed}))

    def __contains__(self, group_id: str) -> bool:
        return group_id in set(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
