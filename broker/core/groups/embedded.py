"""The embedded subscriptions and assignments of consumers that use the classic protocol.

They are an int16 version followed by ConsumerProtocolSubscription or ConsumerProtocolAssignment.
Versions newer than the latest known one begin like it and are decoded as such, as in Kafka.
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
    """The version that a member uses; its assignment is written in the same version.

    Raises: MalformedMessage.
    """
    if len(data) < _VERSION.size:
        raise Truncated(f"{len(data)} bytes, but a version has {_VERSION.size}")
    version: int = _VERSION.unpack_from(data)[0]
    return version


def read_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """The subscription and owned partitions of a member.  Raises: MalformedMessage."""
    return _read(ConsumerProtocolSubscription, data)


def read_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """The assignment that a leader made for a member.  Raises: MalformedMessage."""
    return _read(ConsumerProtocolAssignment, data)


def write_assignment(partitions: Partitions, version: int, topics: TopicsImage) -> bytes:
    """Encode an assignment for a member that uses `version`; deleted topics are left out.

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
