"""Members, offsets and records as the admin API shows them, whoever has read them.

The resources ask the brokers of this process; `odradek.testing` asks brokers without an admin API.
"""

from collections.abc import Callable
from typing import Any

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.primitives import Buffer
from odradek.protocol.records.record import Record


def classic_member(member: Any) -> Any:
    """A member as DescribeGroups tells of it."""
    return {
        "member_id": member.member_id,
        "instance_id": member.group_instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "assignment": _classic_assignment(bytes(member.member_assignment)),
    }


def consumer_member(member: Any) -> Any:
    """A member as ConsumerGroupDescribe tells of it."""
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.client_host,
        "assignment": {
            topic.topic_name: list(topic.partitions) for topic in member.assignment.topic_partitions
        },
    }


def committed_offset(topic: str, partition: Any, end: int | None) -> Any:
    """An offset as OffsetFetch tells of it; `end`: where the partition ends, if that is known."""
    offset = partition.committed_offset
    return {
        "topic": topic,
        "partition": partition.partition_index,
        "offset": offset,
        "metadata": partition.metadata,
        "lag": None if end is None else max(0, end - offset),
    }


def record_in(partition: int, record: Record, text: Callable[[Buffer | None], str | None]) -> Any:
    """A record; `text` shows the bytes of a key or value."""
    return {
        "partition": partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
    }


def _classic_assignment(data: bytes) -> dict[str, list[int]]:
    """What a consumer is assigned; nothing for members that are no consumers."""
    from ..core.groups.embedded import read_assignment

    try:
        assignment = read_assignment(data)
    except MalformedMessage:
        return {}
    return {each.topic: list(each.partitions) for each in assignment.assigned_partitions}
