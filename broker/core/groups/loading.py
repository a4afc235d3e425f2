"""Builds the groups of a partition of `__consumer_offsets` from its records.

Records are applied in log order; the last one of each key counts. A group may have changed its type
over time: each conversion begins with tombstones of the former type.
"""

from collections.abc import Iterator

from odradek.protocol.group_records import GroupRecord, classic

from ..moment import Moment
from .consumer import ConsumerGroup
from .group import Group
from .makers import GroupMakers
from .offsets import Offsets


class LoadingGroups:
    """The groups while their records are being read."""

    def __init__(self, makers: GroupMakers, offsets: Offsets) -> None:
        self._makers = makers
        self._offsets = offsets
        self._classic: dict[str, classic.GroupMetadataValue] = {}
        self._consumer: dict[str, ConsumerGroup] = {}

    def apply(self, record: GroupRecord) -> None:
        """Apply the next record."""
        key, value = record
        if isinstance(key, classic.OffsetCommitKey):
            self._offsets.apply(record)
        elif isinstance(key, classic.GroupMetadataKey):
            self._classic.pop(key.group, None)
            if isinstance(value, classic.GroupMetadataValue):
                self._classic[key.group] = value
        else:
            self._apply_to_consumer_group(record)

    def _apply_to_consumer_group(self, record: GroupRecord) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]  # all these keys have it
        group = self._consumer.get(group_id)
        if group is None:
            group = self._consumer[group_id] = self._makers.consumer(group_id)
        group.apply(record)

    def finish(self, moment: Moment) -> Iterator[Group]:
        """All records have been read: restore the groups, including those with offsets only."""
        groups: dict[str, Group] = {}
        for group_id, group in self._consumer.items():
            group.journal.wall_ms = moment.wall_ms
            if not group.is_unused:
                group.loaded(moment.now_ms)
                groups[group_id] = group
        for group_id, value in self._classic.items():
            groups[group_id] = self._makers.classic_of(group_id, value, moment)
        for group_id in self._offsets.groups():
            if group_id not in groups:
                groups[group_id] = self._makers.classic(group_id, moment.wall_ms)
        yield from groups.values()
