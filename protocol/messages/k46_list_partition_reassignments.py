"""ListPartitionReassignments (API key 46): the ongoing reassignments.

Source: ListPartitionReassignmentsRequest.json and
ListPartitionReassignmentsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int16, int32, string


class ListPartitionReassignmentsTopics(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class ListPartitionReassignmentsRequest(Message, api_key=46, versions="0", flexible="0+"):
    """Null topics: all ongoing reassignments."""

    timeout_ms: int = int32("0+", default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array(
        ListPartitionReassignmentsTopics, "0+", default=None, nullable="0+"
    )


class OngoingPartitionReassignment(Struct):
    """A partition with an ongoing reassignment."""

    partition_index: int = int32("0+")
    replicas: list[int] = array("int32", "0+")
    adding_replicas: list[int] = array("int32", "0+")
    removing_replicas: list[int] = array("int32", "0+")


class OngoingTopicReassignment(Struct):
    """The partitions of one topic."""

    name: str = string("0+")
    partitions: list[OngoingPartitionReassignment] = array(OngoingPartitionReassignment, "0+")


class ListPartitionReassignmentsResponse(Message, api_key=46, versions="0", flexible="0+"):
    """The ongoing reassignments."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    topics: list[OngoingTopicReassignment] = array(OngoingTopicReassignment, "0+")
