"""The members of a classic group: the leader, the expected members, and the common protocols."""

from collections import Counter
from collections.abc import Iterator

from .classic_member import ClassicMember, ClassicProtocols, Parked


class Roster:
    """Members by id, in the order in which they joined."""

    __slots__ = (
        "_joined_count",
        "_supporters",
        "leader_id",
        "member_id_of",
        "members",
        "metadata_bytes",
        "pending",
        "unsynced",
    )

    def __init__(self) -> None:
        self.members: dict[str, ClassicMember] = {}
        self.member_id_of: dict[str, str] = {}
        """The static members, by instance id."""
        self.leader_id: str | None = None
        self.pending: set[str] = set()
        """Ids that were given out but not used to join yet."""
        self.unsynced: set[str] = set()
        """Members of this generation that have not sent SyncGroup yet."""
        self.metadata_bytes = 0
        """The size of the metadata that the members have sent."""
        self._joined_count = 0
        self._supporters: Counter[str] = Counter()  # how many members support each protocol

    def __len__(self) -> int:
        return len(self.members)

    def __iter__(self) -> Iterator[ClassicMember]:
        return iter(list(self.members.values()))  # a copy: the caller may remove members

    @property
    def joined_count(self) -> int:
        """How many members wait for the next generation."""
        return self._joined_count

    @property
    def all_joined(self) -> bool:
        """Whether no member and no pending id is missing for the next generation."""
        return self._joined_count == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((0, *(member.rebalance_timeout_ms for member in self)))

    def add(self, member: ClassicMember) -> None:
        """Add a new member; the first one becomes the leader."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.member_id_of[member.instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self._note_protocols(member)
        self.pending.discard(member.member_id)

    def remove(self, member: ClassicMember) -> None:
        """Remove a member, whose requests must have been answered."""
        assert not member.is_waiting
        del self.members[member.member_id]
        instance_id = member.instance_id  # an empty one is an id like any other
        if instance_id is not None and self.member_id_of.get(instance_id) == member.member_id:
            del self.member_id_of[instance_id]
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self.members), None)
        self._forget_protocols(member)
        self.unsynced.discard(member.member_id)

    def rename(self, member: ClassicMember, new_id: str) -> None:
        """Give a static member a new id; the old one becomes unknown."""
        old_id = member.member_id
        del self.members[old_id]
        member.member_id = new_id
        self.members[new_id] = member
        if member.instance_id is not None:
            self.member_id_of[member.instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        if old_id in self.unsynced:
            self.unsynced.discard(old_id)
            self.unsynced.add(new_id)

    def update(
        self,
        member: ClassicMember,
        protocols: ClassicProtocols,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Update a member's protocols and timeouts when it joins again."""
        self._forget_protocols(member)
        member.protocols = protocols
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms
        self._note_protocols(member)

    def park_join(self, member: ClassicMember, parked: Parked) -> Parked | None:
        """Park a JoinGroup; return the earlier one that it replaces, if any."""
        before, member.join = member.join, parked
        self._joined_count += before is None
        return before

    def take_join(self, member: ClassicMember) -> Parked | None:
        """Take out the parked JoinGroup, if any, to answer it."""
        parked, member.join = member.join, None
        self._joined_count -= parked is not None
        return parked

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader, the current one if possible.

        False: none has joined.
        """
        leader = self.members.get(self.leader_id or "")
        if leader is None or leader.join is None:
            leader = next((member for member in self if member.join is not None), None)
            if leader is None:
                return False
            self.leader_id = leader.member_id
        return True

    def can_all_do_one_of(self, protocols: ClassicProtocols) -> bool:
        """Whether at least one of these protocols is supported by every member."""
        return any(self._supporters[name] == len(self.members) for name, _ in protocols)

    def select_protocol(self) -> str:
        """The most preferred of the protocols that all support; there must be members."""
        candidates = {
            name for name, count in self._supporters.items() if count == len(self.members)
        }
        votes = Counter(member.vote(candidates) for member in self)
        return votes.most_common(1)[0][0]

    def _note_protocols(self, member: ClassicMember) -> None:
        self._supporters.update(name for name, _ in member.protocols)
        self.metadata_bytes += _size_of(member.protocols)

    def _forget_protocols(self, member: ClassicMember) -> None:
        self.metadata_bytes -= _size_of(member.protocols)
        for name, _ in member.protocols:
            self._supporters[name] -= 1
            if not self._supporters[name]:
                del self._supporters[name]


def _size_of(protocols: ClassicProtocols) -> int:
    return sum(len(name) + len(data) for name, data in protocols)
