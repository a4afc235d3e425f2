"""A group of any kind as its coordinator describes it, and its committed offsets."""

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from odradek.protocol.consumer_protocol import ConsumerProtocolAssignment
from odradek.protocol.errors import ErrorCode, MalformedMessage
from odradek.protocol.messages import k15_describe_groups as k15
from odradek.protocol.messages import k69_consumer_group_describe as k69
from odradek.protocol.messages.k09_offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)

from .brokers import BrokerLacks, BrokerNode, Brokers, refusal
from .errors import CommandError
from .group_offsets import Partition

DEAD: Final = "Dead"
EMPTY: Final = "Empty"
CONSUMERS: Final = ("consumer", "")  # "": only offsets were committed, without members
NOT_A_CONSUMER_GROUP: Final = (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION)
ALL_OFFSETS_FIRST: Final = 2  # older versions cannot ask for all partitions
NO_OFFSET: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member, and the partitions it reads."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: list[Partition]
    epoch: int | None = None
    """The member epoch in a consumer group; None in a classic group."""
    target: list[Partition] | None = None
    """The target assignment in a consumer group; None in a classic group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group; one that does not exist is Dead."""

    group_id: str
    type: str
    """classic or consumer."""
    state: str
    protocol_type: str
    assignor: str
    """The protocol that a classic group's members agreed on, else the coordinator's assignor."""
    coordinator: BrokerNode
    members: list[MemberView]
    epoch: int | None = None
    """The group epoch of a consumer group; DescribeGroups has no generation of a classic one."""


def describe_group(brokers: Brokers, group_id: str) -> GroupView:
    """Ask the group's coordinator.  Raises: CommandError."""
    try:
        return _consumer_group(brokers, group_id) or _classic_group(brokers, group_id)
    except BrokerLacks:
        return _classic_group(brokers, group_id)


def existing_group(brokers: Brokers, group_id: str) -> GroupView:
    """As `describe_group`, but a missing group is an error.  Raises: CommandError."""
    group = describe_group(brokers, group_id)
    if group.state == DEAD:
        raise refusal(group_id, ErrorCode.GROUP_ID_NOT_FOUND, "there is no such group")
    return group


def committed_offsets(brokers: Brokers, group_id: str) -> dict[Partition, int]:
    """All committed offsets of a group.  Raises: CommandError."""
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
    )
    answer = brokers.ask_coordinator(
        group_id, request, OffsetFetchResponse, _fetch_code, first=ALL_OFFSETS_FIRST
    )
    code = _fetch_code(answer)
    if code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise refusal(group_id, code)
    topics = answer.groups[0].topics if answer.groups else answer.topics
    return {
        Partition(topic.name, p.partition_index): p.committed_offset
        for topic in topics
        for p in topic.partitions
        if p.error_code == ErrorCode.NONE and p.committed_offset != NO_OFFSET
    }


def _fetch_code(answer: OffsetFetchResponse) -> int:
    return answer.groups[0].error_code if answer.groups else answer.error_code


def _consumer_group(brokers: Brokers, group_id: str) -> GroupView | None:
    """Describe a consumer group; None: it is none.  Raises: CommandError, BrokerLacks."""
    answer = brokers.ask_coordinator(
        group_id,
        k69.ConsumerGroupDescribeRequest(group_ids=[group_id]),
        k69.ConsumerGroupDescribeResponse,
        lambda answer: answer.groups[0].error_code,
    )
    (group,) = answer.groups
    if group.error_code in NOT_A_CONSUMER_GROUP:
        return None
    if group.error_code:
        raise refusal(group_id, group.error_code, group.error_message)
    return GroupView(
        group_id=group_id,
        type="consumer",
        state=group.group_state,
        protocol_type="consumer",
        assignor=group.assignor_name,
        coordinator=brokers.coordinator(group_id),
        members=[_consumer_member(member) for member in group.members],
        epoch=group.group_epoch,
    )


def _consumer_member(member: k69.Member) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=_flat((t.topic_name, t.partitions) for t in member.assignment.topic_partitions),
        epoch=member.member_epoch,
        target=_flat(
            (t.topic_name, t.partitions) for t in member.target_assignment.topic_partitions
        ),
    )


def _classic_group(brokers: Brokers, group_id: str) -> GroupView:
    answer = brokers.ask_coordinator(
        group_id,
        k15.DescribeGroupsRequest(groups=[group_id]),
        k15.DescribeGroupsResponse,
        lambda answer: answer.groups[0].error_code,
    )
    (group,) = answer.groups
    if group.error_code not in (ErrorCode.NONE, ErrorCode.GROUP_ID_NOT_FOUND):
        raise refusal(group_id, group.error_code)
    reads_topics = group.protocol_type in CONSUMERS
    return GroupView(
        group_id=group_id,
        type="classic",
        state=group.group_state or DEAD,
        protocol_type=group.protocol_type,
        assignor=group.protocol_data,
        coordinator=brokers.coordinator(group_id),
        members=[_classic_member(member, reads_topics) for member in group.members],
    )


def _classic_member(member: k15.DescribedGroupMember, reads_topics: bool) -> MemberView:
    return MemberView(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        partitions=assigned(member.member_assignment) if reads_topics else [],
    )


def assigned(assignment: bytes) -> list[Partition]:
    """The partitions in the assignment of a classic consumer.  Raises: CommandError."""
    if not assignment:  # not assigned yet
        return []
    try:
        (version,) = struct.unpack_from(">h", assignment)
        version = min(version, ConsumerProtocolAssignment.VERSIONS.last)
        given, _ = ConsumerProtocolAssignment.decode(assignment, version, 2)
    except (struct.error, MalformedMessage) as error:
        raise CommandError(f"a member's assignment cannot be read: {error}") from error
    return _flat((t.topic, t.partitions) for t in given.assigned_partitions)


def _flat(topics: Iterable[tuple[str, list[int]]]) -> list[Partition]:
    return sorted(Partition(name, index) for name, indexes in topics for index in indexes)
