"""Making groups: each kind with what it needs from outside."""

from collections.abc import Callable

from odradek.protocol.group_records.classic import GroupMetadataValue

from ..moment import Moment
from .classic import ClassicGroup
from .consumer import ConsumerGroup
from .group import TopicsImage
from .member_ids import MemberIds
from .settings import GroupSettings


class GroupMakers:
    """Makes empty groups, and classic ones from their record."""

    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        topics: TopicsImage,
        member_ids: MemberIds,
    ) -> None:
        """`settings`: those of a group, asked for again whenever they are needed."""
        self.settings = settings
        self.topics = topics
        self.member_ids = member_ids

    def classic(self, group_id: str, wall_ms: int) -> ClassicGroup:
        """A classic group without members."""
        return ClassicGroup(
            group_id,
            lambda: self.settings(group_id).classic,
            self.member_ids.classic,
            wall_ms,
        )

    def classic_of(self, group_id: str, value: GroupMetadataValue, moment: Moment) -> ClassicGroup:
        """A classic group as its record keeps it."""
        return ClassicGroup.load(
            group_id,
            value,
            lambda: self.settings(group_id).classic,
            self.member_ids.classic,
            moment.now_ms,
            moment.wall_ms,
        )

    def consumer(self, group_id: str) -> ConsumerGroup:
        """A consumer group without members."""
        return ConsumerGroup(
            group_id,
            lambda: self.settings(group_id).consumer,
            self.topics,
            self.member_ids.consumer,
        )
