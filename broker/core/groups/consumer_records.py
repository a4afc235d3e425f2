"""The records of a consumer group; the other records of a member are in `consumer_member.py`."""

from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records import consumer as records

from .consumer_member import (
    Partitions,
    current_assignment_tombstone,
    member_tombstone,
    target_tombstone,
)
from .consumer_state import GroupState, ResolvedRegex


def group_epoch_record(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """The record of the group epoch, and of the hash of the topics it was based on."""
    return GroupRecord(
        records.ConsumerGroupMetadataKey(group_id=group_id),
        records.ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def target_epoch_record(group_id: str, epoch: int, wall_ms: int) -> GroupRecord:
    """The record of the group epoch for which the target assignment was computed, and when."""
    return GroupRecord(
        records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        records.ConsumerGroupTargetAssignmentMetadataValue(
            assignment_epoch=epoch, assignment_timestamp=wall_ms
        ),
    )


def target_record(group_id: str, member_id: str, partitions: Partitions) -> GroupRecord:
    """The record of a member's target assignment."""
    return GroupRecord(
        records.ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        records.ConsumerGroupTargetAssignmentMemberValue(
            topic_partitions=[
                records.TopicPartition(topic_id=topic_id, partitions=sorted(numbers))
                for topic_id, numbers in sorted(partitions.items())
            ]
        ),
    )


def regex_record(group_id: str, pattern: str, resolved: ResolvedRegex) -> GroupRecord:
    """The record of the topics that a pattern matched."""
    return GroupRecord(
        records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        records.ConsumerGroupRegularExpressionValue(
            topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.wall_ms
        ),
    )


def regex_tombstone(group_id: str, pattern: str) -> GroupRecord:
    """The tombstone of a pattern that no member subscribes to."""
    return GroupRecord(
        records.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=pattern),
        None,
    )


def partition_metadata_tombstone(group_id: str) -> GroupRecord:
    """The tombstone of the partition metadata of Kafka before 4.1, which the hash replaces."""
    return GroupRecord(records.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


def group_tombstones(state: GroupState) -> list[GroupRecord]:
    """The records that delete a group, in Kafka's order."""
    group_id = state.group_id
    target_epoch = records.ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
    return [
        *(current_assignment_tombstone(group_id, member_id) for member_id in state.members),
        *(target_tombstone(group_id, member_id) for member_id in state.target),
        GroupRecord(target_epoch, None),
        *(member_tombstone(group_id, member_id) for member_id in state.members),
        *(regex_tombstone(group_id, pattern) for pattern in state.regexes),
        partition_metadata_tombstone(group_id),  # always, as in Kafka
        GroupRecord(records.ConsumerGroupMetadataKey(group_id=group_id), None),
    ]
