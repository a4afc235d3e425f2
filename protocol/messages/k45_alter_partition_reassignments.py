"""AlterPartitionReassignments (API key 45): move replicas to other brokers, or stop moving them.

Source: AlterPartitionReassignmentsRequest.json and
AlterPartitionReassignmentsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string


class ReassignablePartition(Struct):
    """Where the replicas of a partition shall be; null: where they were before."""

    partition_index: int = int32("0+")
    replicas: list[int] | None = array("int32", "0+", default=None, nullable="0+")


class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0", flexible="0+"):
    """What to move, what to cancel."""

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")


class ReassignablePartitionResponse(Struct):
    """Whether a partition's replicas are being moved now."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0", flexible="0+"):
    """What has begun."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")
