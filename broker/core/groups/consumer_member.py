"""A member of a consumer group (KIP-848) as plain data, and its records."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records import consumer as records

ByEpoch = Mapping[bytes, Mapping[int, int]]
"""Partitions a member owns: topic id -> partition -> the epoch in which it was assigned."""
Partitions = Mapping[bytes, frozenset[int]]
"""Partitions by topic id; topics without partitions are left out."""

JOIN_EPOCH: Final = 0
"""The member joins, or joins again."""
LEAVE_EPOCH: Final = -1
"""The member leaves for good."""
LEAVE_STATIC_EPOCH: Final = -2
"""The static member leaves temporarily: its assignment is kept for its instance id."""
_UNKNOWN_EPOCH: Final = -1


class MemberState(IntEnum):
    """A member's progress towards its target assignment."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """The member was told to revoke partitions and still owns them."""
    UNRELEASED_PARTITIONS = 2
    """The member waits for partitions that other members have not released yet."""
    UNKNOWN = 127
    """A newer broker wrote a state that this version does not know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """A member; immutable, each record replaces it."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = _UNKNOWN_EPOCH
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: frozenset[str] = frozenset()
    subscribed_topic_regex: str | None = ""
    """Empty, or None in some records: no pattern."""
    server_assignor: str | None = None
    assigned: ByEpoch = field(default_factory=dict)
    pending_revocation: ByEpoch = field(default_factory=dict)
    classic: records.ClassicMemberMetadata | None = None
    """The data of a member that uses the classic protocol; None: it uses the consumer protocol."""

    @property
    def regex(self) -> str | None:
        """The pattern that the member subscribes to, or None."""
        return self.subscribed_topic_regex or None

    @property
    def metadata_bytes(self) -> int:
        """The size of the metadata that the member has sent, in characters and bytes."""
        classic = () if self.classic is None else self.classic.supported_protocols
        return (
            sum(map(len, self.subscribed_topic_names))
            + len(self.subscribed_topic_regex or "")
            + sum(len(protocol.name) + len(protocol.metadata) for protocol in classic)
        )

    @property
    def is_static_and_away(self) -> bool:
        """Whether this static member left with epoch -2 and is expected back."""
        return self.instance_id is not None and self.member_epoch == LEAVE_STATIC_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Whether the member has reached its target assignment of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch

    def moved_to(self, epoch: int) -> "ConsumerMember":
        """The member in an epoch; its current epoch becomes the previous one, even if equal."""
        return replace(self, member_epoch=epoch, previous_member_epoch=self.member_epoch)

    def with_metadata(self, value: records.ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """The member with the metadata and subscription of a record."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            subscribed_topic_names=frozenset(value.subscribed_topic_names),
            subscribed_topic_regex=value.subscribed_topic_regex,
            server_assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(
        self, value: records.ConsumerGroupCurrentMemberAssignmentValue
    ) -> "ConsumerMember":
        """The member with the epochs and assignment of a record."""
        known = value.state in set(MemberState)
        return replace(
            self,
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state) if known else MemberState.UNKNOWN,
            assigned=_by_epoch(value.assigned_partitions, value.member_epoch),
            pending_revocation=_by_epoch(value.partitions_pending_revocation, value.member_epoch),
        )

    def without_assignment(self) -> "ConsumerMember":
        """The member after its assignment record is deleted."""
        return replace(
            self,
            member_epoch=LEAVE_EPOCH,
            previous_member_epoch=LEAVE_EPOCH,
            state=MemberState.STABLE,
            assigned={},
            pending_revocation={},
        )


def partitions_of(owned: ByEpoch) -> dict[bytes, frozenset[int]]:
    """The same partitions without their epochs."""
    return {topic_id: frozenset(epochs) for topic_id, epochs in owned.items() if epochs}


def _by_epoch(
    topics: Iterable[records.TopicPartitions], member_epoch: int
) -> dict[bytes, dict[int, int]]:
    """Partitions by topic id, each with the epoch in which it was assigned.

    Kafka before 4.3 did not record these. Then it is the member's epoch, the latest possible one.
    """
    found: dict[bytes, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [max(member_epoch, 0)] * len(topic.partitions)
        found.setdefault(topic.topic_id, {}).update(zip(topic.partitions, epochs, strict=True))
    return {topic_id: epochs for topic_id, epochs in found.items() if epochs}


def member_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """The record of a member's metadata and subscription."""
    return GroupRecord(
        records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member.member_id),
        records.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=member.classic,
        ),
    )


def current_assignment_record(group_id: str, member: ConsumerMember) -> GroupRecord:
    """The record of a member's epochs and current assignment."""
    return GroupRecord(
        records.ConsumerGroupCurrentMemberAssignmentKey(
            group_id=group_id, member_id=member.member_id
        ),
        records.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_topic_partitions(member.assigned),
            partitions_pending_revocation=_topic_partitions(member.pending_revocation),
        ),
    )


def _topic_partitions(owned: ByEpoch) -> list[records.TopicPartitions]:
    return [
        records.TopicPartitions(
            topic_id=topic_id,
            partitions=sorted(epochs),
            assignment_epochs=[epochs[partition] for partition in sorted(epochs)],
        )
        for topic_id, epochs in sorted(owned.items())
    ]


def member_tombstone(group_id: str, member_id: str) -> GroupRecord:
    """The tombstone of a member's metadata."""
    key = records.ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, None)


def current_assignment_tombstone(group_id: str, member_id: str) -> GroupRecord:
    """The tombstone of a member's current assignment."""
    key = records.ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, None)


def target_tombstone(group_id: str, member_id: str) -> GroupRecord:
    """The tombstone of a member's target assignment."""
    key = records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
    return GroupRecord(key, None)


def removal_records(group_id: str, member_id: str) -> list[GroupRecord]:
    """All tombstones of a member, in Kafka's order."""
    return [
        current_assignment_tombstone(group_id, member_id),
        target_tombstone(group_id, member_id),
        member_tombstone(group_id, member_id),
    ]
