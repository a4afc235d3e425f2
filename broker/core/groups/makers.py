"""Creates groups of each type with their settings, topics and member ids."""

from collections.abc import Callable

from odradek.protocol.group_records.classic import GroupMetadataValue

from ..moment import Moment
from .classic import ClassicGroup
from .consumer import ConsumerGroup
from .group import TopicsImage
from .member_ids import MemberIds
from .settings import GroupSettings


class GroupMakers:
    """Creates empty groups, and classic groups from their record."""

    def __init__(
        self,
        settings: Callable[[str], GroupSettings],
        topics: TopicsImage,
        member_ids: MemberIds,
    ) -> None:
        """`settings`: returns the settings of a group; called whenever they are needed."""
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
        """A classic group restored from its record."""
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
