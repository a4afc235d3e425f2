"""The description of a consumer group for ConsumerGroupDescribe."""

from typing import Final

from odradek.protocol.messages.k69_consumer_group_describe import (
    Assignment,
    DescribedGroup,
    Member,
    TopicPartitions,
)

from .consumer_member import ConsumerMember, Partitions, partitions_of
from .consumer_state import GroupState
from .consumer_steps import preferred_assignor
from .group import TopicsImage
from .settings import ConsumerSettings

MEMBER_TYPE_CLASSIC: Final = 0
MEMBER_TYPE_CONSUMER: Final = 1


def describe_group(
    state: GroupState, settings: ConsumerSettings, topics: TopicsImage
) -> DescribedGroup:
    """State, epochs and members, each with its current and its target assignment."""
    return DescribedGroup(
        group_id=state.group_id,
        group_state=state.name,
        group_epoch=state.group_epoch,
        assignment_epoch=state.assignment_epoch,
        assignor_name=preferred_assignor(state, settings),
        members=[_member(state, member, topics) for member in state.members.values()],
    )


def _member(state: GroupState, member: ConsumerMember, topics: TopicsImage) -> Member:
    owned = dict(partitions_of(member.assigned))
    for topic_id, pending in partitions_of(member.pending_revocation).items():
        owned[topic_id] = owned.get(topic_id, frozenset()) | pending
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.subscribed_topic_names),
        subscribed_topic_regex=member.subscribed_topic_regex,
        assignment=_assignment(owned, topics),
        target_assignment=_assignment(state.target_of(member.member_id), topics),
        member_type=MEMBER_TYPE_CONSUMER if member.classic is None else MEMBER_TYPE_CLASSIC,
    )


def _assignment(owned: Partitions, topics: TopicsImage) -> Assignment:
    """An assignment by topic name, without deleted topics, whose names are unknown."""
    named = ((topics.name_of(topic_id), topic_id) for topic_id in sorted(owned))
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(owned[topic_id]))
            for name, topic_id in named
            if name is not None
        ]
    )
