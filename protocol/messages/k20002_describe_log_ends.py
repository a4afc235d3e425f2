"""DescribeLogEnds (API key 20002): where the logs of a broker's replicas end, led or not.

Odradek's own, not Kafka's: ApiVersions does not name it, and Apache's brokers close the connection
on it.  A controller asks it where the last in-sync replica may have lost records.
"""

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class LogEndsTopic(Struct):
    """Partitions of one topic."""

    name: str = string("0+")
    partition_indexes: list[int] = array("int32", "0+")


class DescribeLogEndsRequest(Message, api_key=20002, versions="0", flexible="0+"):
    """The replicas whose log ends to describe."""

    topics: list[LogEndsTopic] = array(LogEndsTopic, "0+")


class ReplicaLogEnd(Struct):
    """One replica.  `last_epoch` is the latest leader epoch that its log knows of, or -1."""

    partition_index: int = int32("0+")
    error_code: int = int16("0+")
    last_epoch: int = int32("0+", default=-1)
    log_end_offset: int = int64("0+", default=-1)
    is_suspect: bool = boolean("0+")


class LogEndsTopicResult(Struct):
    """The replicas of one topic."""

    name: str = string("0+")
    partitions: list[ReplicaLogEnd] = array(ReplicaLogEnd, "0+")


class DescribeLogEndsResponse(Message, api_key=20002, versions="0", flexible="0+"):
    """One result for each replica in the request."""

    throttle_time_ms: int = int32("0+")
    topics: list[LogEndsTopicResult] = array(LogEndsTopicResult, "0+")
