"""AlterPartitionReassignments (API key 45): start or cancel reassignments of replicas.

Source: AlterPartitionReassignmentsRequest.json and
AlterPartitionReassignmentsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string


class ReassignablePartition(Struct):
    """The new replicas of a partition; null: cancel its reassignment."""

    partition_index: int = int32("0+")
    replicas: list[int] | None = array("int32", "0+", default=None, nullable="0+")


class ReassignableTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partitions: list[ReassignablePartition] = array(ReassignablePartition, "0+")


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions="0", flexible="0+"):
    """The reassignments to start or to cancel."""

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ReassignableTopic] = array(ReassignableTopic, "0+")


class ReassignablePartitionResponse(Struct):
    """The result for one partition."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReassignableTopicResponse(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[ReassignablePartitionResponse] = array(ReassignablePartitionResponse, "0+")


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions="0", flexible="0+"):
    """One result per partition, topic by topic."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    responses: list[ReassignableTopicResponse] = array(ReassignableTopicResponse, "0+")
