"""Records of __consumer_offsets for consumer groups (KIP-848).

Source: the JSON files of these names in the group-coordinator jar of Apache Kafka 4.3.1.
"""

from ..schema import Message, Struct, array, binary, int8, int32, int64, string, struct, uuid


class ConsumerGroupMetadataKey(Message, api_key=3, versions="0", flexible="none"):
    """A consumer group."""

    group_id: str = string("0")


class ConsumerGroupMetadataValue(Message, api_key=3, versions="0", flexible="0+"):
    """The group epoch, which rises whenever the assignment must be recomputed."""

    epoch: int = int32("0+")
    metadata_hash: int = int64("0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, api_key=4, versions="0", flexible="none"):
    """A consumer group."""

    group_id: str = string("0")


class PartitionMetadata(Struct):
    """A partition and the racks of its replicas."""

    partition: int = int32("0+")
    racks: list[str] = array("string", "0+")


class TopicMetadata(Struct):
    """A topic as the group last saw it."""

    topic_id: bytes = uuid("0+")
    topic_name: str = string("0+")
    num_partitions: int = int32("0+")
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata, "0+")


class ConsumerGroupPartitionMetadataValue(Message, api_key=4, versions="0", flexible="0+"):
    """The topics that the group subscribes to; written by Kafka before 4.1."""

    topics: list[TopicMetadata] = array(TopicMetadata, "0+")


class ConsumerGroupMemberMetadataKey(Message, api_key=5, versions="0", flexible="none"):
    """A member of a consumer group."""

    group_id: str = string("0")
    member_id: str = string("0")


class ClassicProtocol(Struct):
    """A protocol that a member with the classic protocol supports."""

    name: str = string("0+")
    metadata: bytes = binary("0+")


class ClassicMemberMetadata(Struct):
    """State of a member that uses the classic protocol in a consumer group."""

    session_timeout_ms: int = int32("0+")
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol, "0+")


class ConsumerGroupMemberMetadataValue(Message, api_key=5, versions="0", flexible="0+"):
    """A member's identity and subscription."""

    instance_id: str | None = string("0+", nullable="0+")
    rack_id: str | None = string("0+", nullable="0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array("string", "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+")
    rebalance_timeout_ms: int = int32("0+", default=-1)
    server_assignor: str | None = string("0+", nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(
        ClassicMemberMetadata, "0+", default=None, nullable="0+", tag=0
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, api_key=6, versions="0", flexible="none"):
    """A consumer group."""

    group_id: str = string("0")


class ConsumerGroupTargetAssignmentMetadataValue(Message, api_key=6, versions="0", flexible="0+"):
    """The group epoch for which the target assignment was computed."""

    assignment_epoch: int = int32("0+")
    assignment_timestamp: int = int64("0+", tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, api_key=7, versions="0", flexible="none"):
    """A member of a consumer group."""

    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("int32", "0+")


class ConsumerGroupTargetAssignmentMemberValue(Message, api_key=7, versions="0", flexible="0+"):
    """The target assignment of a member."""

    topic_partitions: list[TopicPartition] = array(TopicPartition, "0+")


class ConsumerGroupCurrentMemberAssignmentKey(Message, api_key=8, versions="0", flexible="none"):
    """A member of a consumer group."""

    group_id: str = string("0")
    member_id: str = string("0")


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid("0+")
    partitions: list[int] = array("int32", "0+")
    assignment_epochs: list[int] | None = array("int32", "0+", default=None, nullable="0+", tag=0)


class ConsumerGroupCurrentMemberAssignmentValue(Message, api_key=8, versions="0", flexible="0+"):
    """The partitions that a member owns now, and those that it still has to revoke."""

    member_epoch: int = int32("0+")
    previous_member_epoch: int = int32("0+")
    state: int = int8("0+")
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupRegularExpressionKey(Message, api_key=16, versions="0", flexible="none"):
    """A regular expression that members of a group subscribe to."""

    group_id: str = string("0")
    regular_expression: str = string("0")


class ConsumerGroupRegularExpressionValue(Message, api_key=16, versions="0", flexible="0+"):
    """The topics that match the pattern, at a version of the metadata."""

    topics: list[str] = array("string", "0+")
    version: int = int64("0+")
    timestamp: int = int64("0+")
