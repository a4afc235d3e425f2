"""DescribeLogDirs (API key 35): sizes and health of log directories.

Source: DescribeLogDirsRequest.json, DescribeLogDirsResponse.json of Apache Kafka 3.9.2.
"""

from ..schema import Message, Struct, array, boolean, int16, int32, int64, string


class DescribableLogDirTopic(Struct):
    """Partitions of one topic to look at."""

    topic: str = string("0+")
    partitions: list[int] = array("int32", "0+")


class DescribeLogDirsRequest(Message, api_key=35, versions="0-4", flexible="2+"):
    """Null topics mean all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")


class DescribeLogDirsPartition(Struct):
    """Size and lag of one replica."""

    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")
    is_future_key: bool = boolean("0+")


class DescribeLogDirsTopic(Struct):
    """Replicas of one topic."""

    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    """One log directory."""

    error_code: int = int16("0+")
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1)
    usable_bytes: int = int64("4+", default=-1)


class DescribeLogDirsResponse(Message, api_key=35, versions="0-4", flexible="2+"):
    """One result per directory."""

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("3+")
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")
