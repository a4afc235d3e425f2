"""CreatePartitions (API key 37): add partitions to topics.

Source: CreatePartitionsRequest.json, CreatePartitionsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int16, int32, string


class CreatePartitionsAssignment(Struct):
    """Replicas of one new partition."""

    broker_ids: list[int] = array("int32", "0+")


class CreatePartitionsTopic(Struct):
    """The new partition count, and optionally the replicas of the new ones."""

    name: str = string("0+")
    count: int = int32("0+")
    assignments: list[CreatePartitionsAssignment] | None = array(
        CreatePartitionsAssignment, "0+", nullable="0+"
    )


class CreatePartitionsRequest(Message, api_key=37, versions="0-3", flexible="2+"):
    """Add partitions, or only validate the request."""

    topics: list[CreatePartitionsTopic] = array(CreatePartitionsTopic, "0+")
    timeout_ms: int = int32("0+")
    validate_only: bool = boolean("0+")


class CreatePartitionsTopicResult(Struct):
    """The result for one topic."""

    name: str = string("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)


class CreatePartitionsResponse(Message, api_key=37, versions="0-3", flexible="2+"):
    """One result per topic."""

    throttle_time_ms: int = int32("0+")
    results: list[CreatePartitionsTopicResult] = array(CreatePartitionsTopicResult, "0+")
