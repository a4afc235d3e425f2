"""The state of a consumer group, which is exactly what its records say.

`GroupState.apply` is the only way to change a group, both during loading and for decisions. A
`Draft` collects the records of a decision and applies them to a fork of the state, so that each
step sees the results of earlier steps. The group itself changes only once the records are in the
log.

Memory is bounded: a member's names and pattern are in one record, so the largest batch of
`__consumer_offsets` limits them; only partitions that the assignor has given are held, and these
exist; a pattern is deleted with its last member.
"""

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, NamedTuple

from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records import consumer as records

from .consumer_member import ConsumerMember, Partitions

INITIAL_EPOCH: Final = 1
"""The epoch of a group without a group record, and of its empty assignment."""
_NO_PARTITIONS: Final[Partitions] = {}


class ResolvedRegex(NamedTuple):
    """The topics that a pattern matched."""

    topics: frozenset[str]
    version: int
    """The version of the topics when the pattern was resolved."""
    wall_ms: int


class GroupState:
    """The state of a consumer group, built from its records."""

    __slots__ = (
        "assignment_epoch",
        "assignment_wall_ms",
        "classic_count",
        "group_epoch",
        "group_id",
        "has_partition_metadata",
        "members",
        "metadata_bytes",
        "metadata_hash",
        "owners",
        "patterns",
        "regexes",
        "static_members",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = INITIAL_EPOCH
        self.metadata_bytes = 0
        """The size of the metadata that the members have sent."""
        self.metadata_hash = 0
        self.assignment_epoch = INITIAL_EPOCH
        self.assignment_wall_ms = 0
        self.has_partition_metadata = False
        """Whether there is a partition metadata record of Kafka before 4.1.

        It is deleted together with the next metadata hash.
        """
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        """Instance id -> member id."""
        self.target: dict[str, Partitions] = {}
        """The target assignment of each member."""
        self.patterns: dict[str, int] = {}
        """How many members subscribe to each pattern."""
        self.regexes: dict[str, ResolvedRegex] = {}
        self.owners: dict[tuple[bytes, int], str] = {}
        """The member that owns each partition; partitions pending revocation included."""
        self.classic_count = 0
        """How many members use the classic protocol."""

    def fork(self) -> "GroupState":
        """An independent copy; members and sets are shared, as they are immutable."""
        other = GroupState(self.group_id)
        for name in self.__slots__:
            value = getattr(self, name)
            setattr(other, name, value.copy() if isinstance(value, dict) else value)
        return other

    def target_of(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.target.get(member_id, _NO_PARTITIONS)

    def static_member(self, instance_id: str | None) -> ConsumerMember | None:
        """The member with an instance id, or None."""
        member_id = None if instance_id is None else self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """The topics a member subscribes to, including those of its pattern once resolved."""
        found = self.regexes.get(member.regex) if member.regex is not None else None
        if found is None or not found.topics:
            return member.subscribed_topic_names
        return member.subscribed_topic_names | found.topics

    def subscribed_topics(self) -> set[str]:
        """The topics that any member subscribes to."""
        names: set[str] = set()
        names.update(*{member.subscribed_topic_names for member in self.members.values()})
        names.update(*(self.regexes[text].topics for text in self.patterns if text in self.regexes))
        return names

    @property
    def name(self) -> str:
        """The state as Kafka names it."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        epoch = self.assignment_epoch
        if all(member.is_reconciled_to(epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def apply(self, record: GroupRecord) -> None:
        """Apply a record of this group; a tombstone of something unknown has no effect."""
        _APPLY[type(record.key)](self, record.key, record.value)

    def _metadata(
        self,
        _key: records.ConsumerGroupMetadataKey,
        value: records.ConsumerGroupMetadataValue | None,
    ) -> None:
        self.group_epoch = INITIAL_EPOCH if value is None else value.epoch
        self.metadata_hash = 0 if value is None else value.metadata_hash

    def _partition_metadata(
        self,
        _key: records.ConsumerGroupPartitionMetadataKey,
        value: records.ConsumerGroupPartitionMetadataValue | None,
    ) -> None:
        self.has_partition_metadata = value is not None

    def _member(
        self,
        key: records.ConsumerGroupMemberMetadataKey,
        value: records.ConsumerGroupMemberMetadataValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            known = old or ConsumerMember(member_id=key.member_id)
            self._replace(old, known.with_metadata(value))
        elif old is not None:
            self._replace(old, None)

    def _current_assignment(
        self,
        key: records.ConsumerGroupCurrentMemberAssignmentKey,
        value: records.ConsumerGroupCurrentMemberAssignmentValue | None,
    ) -> None:
        old = self.members.get(key.member_id)
        if value is not None:
            known = old or ConsumerMember(member_id=key.member_id)
            self._replace(old, known.with_assignment(value))
        elif old is not None:
            self._replace(old, old.without_assignment())

    def _target_metadata(
        self,
        _key: records.ConsumerGroupTargetAssignmentMetadataKey,
        value: records.ConsumerGroupTargetAssignmentMetadataValue | None,
    ) -> None:
        self.assignment_epoch = INITIAL_EPOCH if value is None else value.assignment_epoch
        self.assignment_wall_ms = 0 if value is None else value.assignment_timestamp

    def _target_member(
        self,
        key: records.ConsumerGroupTargetAssignmentMemberKey,
        value: records.ConsumerGroupTargetAssignmentMemberValue | None,
    ) -> None:
        if value is None:
            self.target.pop(key.member_id, None)
            return
        self.target[key.member_id] = {
            topic.topic_id: frozenset(topic.partitions)
            for topic in value.topic_partitions
            if topic.partitions
        }

    def _regex(
        self,
        key: records.ConsumerGroupRegularExpressionKey,
        value: records.ConsumerGroupRegularExpressionValue | None,
    ) -> None:
        if value is None:
            self.regexes.pop(key.regular_expression, None)
        else:
            self.regexes[key.regular_expression] = ResolvedRegex(
                frozenset(value.topics), value.version, value.timestamp
            )

    def _replace(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        if old is not None:
            self.metadata_bytes -= old.metadata_bytes
            self.classic_count -= old.classic is not None
            self._count_pattern(old.regex, -1)
            for owned in (old.assigned, old.pending_revocation):
                self._release(old.member_id, owned)
            holder = self.static_members.get(old.instance_id or "")
            if holder == old.member_id and (new is None or new.instance_id != old.instance_id):
                del self.static_members[old.instance_id or ""]
            if new is None:
                del self.members[old.member_id]
        if new is not None:
            self.members[new.member_id] = new
            self.metadata_bytes += new.metadata_bytes
            self.classic_count += new.classic is not None
            self._count_pattern(new.regex, 1)
            for owned in (new.assigned, new.pending_revocation):
                for topic_id, epochs in owned.items():
                    self.owners.update(
                        ((topic_id, partition), new.member_id) for partition in epochs
                    )
            if new.instance_id is not None:
                self.static_members[new.instance_id] = new.member_id

    def _count_pattern(self, text: str | None, change: int) -> None:
        if text is not None:
            count = self.patterns.pop(text, 0) + change
            if count:
                self.patterns[text] = count

    def _release(self, member_id: str, owned: Mapping[bytes, Mapping[int, int]]) -> None:
        """Remove a member as owner of partitions, except those that another member now owns."""
        for topic_id, epochs in owned.items():
            for partition in epochs:
                if self.owners.get((topic_id, partition)) == member_id:
                    del self.owners[topic_id, partition]


_APPLY: Final[Mapping[type, Callable[..., None]]] = {
    records.ConsumerGroupMetadataKey: GroupState._metadata,
    records.ConsumerGroupPartitionMetadataKey: GroupState._partition_metadata,
    records.ConsumerGroupMemberMetadataKey: GroupState._member,
    records.ConsumerGroupCurrentMemberAssignmentKey: GroupState._current_assignment,
    records.ConsumerGroupTargetAssignmentMetadataKey: GroupState._target_metadata,
    records.ConsumerGroupTargetAssignmentMemberKey: GroupState._target_member,
    records.ConsumerGroupRegularExpressionKey: GroupState._regex,
}


class Timer(Enum):
    """What a member must do in time, or it is fenced; the value is the reason that is shown."""

    SESSION = "it sent no heartbeat within the session timeout"
    REBALANCE = "it did not give up its partitions within the rebalance timeout"
    JOIN = "it did not rejoin (classic protocol) within the rebalance timeout"
    SYNC = "it did not ask for its assignment (classic protocol) within the rebalance timeout"


class Draft:
    """A decision in progress: its records, and the state after them."""

    __slots__ = ("_base", "notes", "records", "state", "timers")

    def __init__(self, base: GroupState) -> None:
        self._base = base
        self.state = base
        """Read-only; the group's own state as long as there are no records."""
        self.records: list[GroupRecord] = []
        self.notes: list[tuple[str, str, str]] = []
        self.timers: list[tuple[Timer, str, int | None]] = []

    def add(self, *added: GroupRecord) -> None:
        """Add records, and apply them to the draft's state."""
        if added and self.state is self._base:
            self.state = self._base.fork()
        for record in added:
            self.records.append(record)
            self.state.apply(record)

    def note(self, event: str, reason: str, member_id: str = "") -> None:
        """Add a journal entry that is made once the records are in the log."""
        self.notes.append((event, reason, member_id))

    def time(self, timer: Timer, member_id: str, delay_ms: int | None) -> None:
        """Add a timer that is set, or (None) cleared, once the records are in the log."""
        self.timers.append((timer, member_id, delay_ms))

    def clear_timers(self, member_id: str) -> None:
        """Clear all timers of a member that is gone."""
        for timer in Timer:
            self.time(timer, member_id, None)
