"""The messages that consumers put into the opaque bytes of a classic group.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json of Apache Kafka 3.9.2.
"""

from .schema import Message, Struct, array, binary, int32, string


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("1+")
    partitions: list[int] = array("int32", "1+")


class ConsumerProtocolSubscription(Message, api_key=-1, versions="0-3", flexible="none"):
    """A consumer's subscription, and (v1+) the partitions that it owns."""

    topics: list[str] = array("string", "0+")
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
    owned_partitions: list[TopicPartition] = array(TopicPartition, "1+")
    generation_id: int = int32("2+", default=-1)
    rack_id: str | None = string("3+", default=None, nullable="3+")


class ConsumerProtocolAssignmentTopicPartition(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerProtocolAssignment(Message, api_key=-1, versions="0-3", flexible="none"):
    """The partitions assigned to a consumer."""

    assigned_partitions: list[ConsumerProtocolAssignmentTopicPartition] = array(
        ConsumerProtocolAssignmentTopicPartition, "0+"
    )
    user_data: bytes | None = binary("0+", default=None, nullable="0+")
