"""The records of a classic group, and the topics in its members' subscriptions."""

from collections.abc import Iterable, Mapping
from typing import Final

from odradek.protocol.consumer_protocol import ConsumerProtocolSubscription
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.group_records import GroupRecord
from odradek.protocol.group_records.classic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)

from .classic_member import ClassicMember

CONSUMER: Final = "consumer"
"""The protocol type whose metadata is a subscription that the broker can decode."""

_VERSION_SIZE: Final = 2


def generation_record(
    group_id: str,
    value: GroupMetadataValue,
    members: Iterable[ClassicMember],
    assignments: Mapping[str, bytes],
) -> GroupRecord:
    """The record of a generation; `members` are added to `value`."""
    value.members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata(value.protocol or ""),
            assignment=assignments.get(member.member_id, b""),
        )
        for member in members
    ]
    return GroupRecord(GroupMetadataKey(group=group_id), value)


def generation_tombstone(group_id: str) -> GroupRecord:
    """The record that deletes the group."""
    return GroupRecord(GroupMetadataKey(group=group_id), None)


def members_from(value: GroupMetadataValue) -> list[ClassicMember]:
    """The members in a record; only the selected protocol of each is known."""
    return [
        ClassicMember(
            member_id=kept.member_id,
            instance_id=kept.group_instance_id,
            client_id=kept.client_id,
            client_host=kept.client_host,
            session_timeout_ms=kept.session_timeout,
            # absent in v0 of the record
            rebalance_timeout_ms=(
                kept.session_timeout if kept.rebalance_timeout == -1 else kept.rebalance_timeout
            ),
            protocol_type=value.protocol_type,
            protocols=[(value.protocol or "", kept.subscription)],
            assignment=kept.assignment,
        )
        for kept in value.members
    ]


def subscribed_topics(
    protocol_type: str, protocol_name: str | None, members: Iterable[ClassicMember]
) -> frozenset[str] | None:
    """The topics that any member consumes; None if that is unknown.

    Every version of a subscription begins like version 0, so newer ones can be decoded, too.
    """
    if protocol_type != CONSUMER or protocol_name is None:
        return None
    topics: set[str] = set()
    for member in members:
        data = member.metadata(protocol_name)
        if len(data) < _VERSION_SIZE:
            return None
        try:
            topics.update(ConsumerProtocolSubscription.decode(data, 0, _VERSION_SIZE)[0].topics)
        except MalformedMessage:
            return None
    return frozenset(topics)
