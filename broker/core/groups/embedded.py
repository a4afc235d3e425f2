"""The bytes of consumers that use the classic protocol, where the broker must read and write them.

An int16 version, then ConsumerProtocolSubscription or ConsumerProtocolAssignment in it. Newer
versions than ours begin like ours, and are read as our newest, as Kafka does.
"""

from struct import Struct
from typing import Final, TypeVar

from odradek.protocol.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolAssignmentTopicPartition,
    ConsumerProtocolSubscription,
)
from odradek.protocol.errors import Truncated
from odradek.protocol.schema import Message

from .consumer_member import Partitions
from .group import TopicsImage

M = TypeVar("M", bound=Message)

_VERSION: Final = Struct(">h")


def read_version(data: bytes) -> int:
    """The version that a member speaks: what it is sent is written in it.

    Raises: MalformedMessage.
    """
    if len(data) < _VERSION.size:
        raise Truncated(f"{len(data)} bytes, but a version has {_VERSION.size}")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member wants, and what it owns.  Raises: MalformedMessage."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a leader gave to a member.  Raises: MalformedMessage."""
    return _read(ConsumerProtocolAssignment, data)


def write_assignment(partitions: Partitions, version: int, topics: TopicsImage) -> bytes:
    """Partitions by name for a member that speaks `version`; topics that are gone are left out.

    Raises: UnsupportedVersion.
    """
    named = ((topics.name_of(topic_id), partitions[topic_id]) for topic_id in partitions)
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignmentTopicPartition(topic=name, partitions=sorted(numbers))
            for name, numbers in sorted((name, some) for name, some in named if name is not None)
        ]
    )
    version = min(version, ConsumerProtocolAssignment.VERSIONS.last)
    return _VERSION.pack(version) + message.encode(version)


def _read(message_class: type[M], data: bytes) -> M:
    version = min(read_version(data), message_class.VERSIONS.last)
    return message_class.decode(data, version, _VERSION.size)[0]
