"""ElectLeaders (API key 43): elect the preferred replica, or an out-of-sync one (unclean).

Source: ElectLeadersRequest.json, ElectLeadersResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, int8, int16, int32, string


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class ElectLeadersRequest(Message, api_key=43, versions="0-2", flexible="2+"):
    """Elect leaders: preferred (0), unclean (1); null: of all partitions."""

    election_type: int = int8("1+")
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+")
    timeout_ms: int = int32("0+", default=60000)


class PartitionResult(Struct):
    """The result for one partition."""

    partition_id: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")


class ReplicaElectionResult(Struct):
    """The partitions of one topic."""

    topic: str = string("0+")
    partition_result: list[PartitionResult] = array(PartitionResult, "0+")


class ElectLeadersResponse(Message, api_key=43, versions="0-2", flexible="2+"):
    """One code for each partition."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("1+")
    replica_election_results: list[ReplicaElectionResult] = array(ReplicaElectionResult, "0+")
