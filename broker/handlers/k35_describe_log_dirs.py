"""DescribeLogDirs 0-4: the logs in this broker's log directories, and the free space.

A failed directory is listed with KAFKA_STORAGE_ERROR. Future replicas (copies in the directory to
which a replica is being moved) are marked.
"""

from collections.abc import Collection
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.storage.errors import LogDirFailed
from odradek.storage.log.log import Log

from ..net.call import Call
from ..node import Node

INVALID_OFFSET_LAG: Final = -1


def handle(request: DescribeLogDirsRequest, call: Call, node: Node) -> DescribeLogDirsResponse:
    """Describe the partitions asked for, or all."""
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, p) for topic in request.topics for p in topic.partitions}
    paths = node.replicas.log_dirs.paths
    return DescribeLogDirsResponse(results=[_describe(path, asked, node) for path in paths])


def _describe(
    path: str, asked: Collection[tuple[str, int]] | None, node: Node
) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=path)
    data_dir = node.replicas.log_dirs.of_path(path)
    if data_dir is None or node.replicas.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        result.total_bytes, result.usable_bytes = data_dir.space()
    except LogDirFailed:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    for log in data_dir.all_logs():
        if asked is None or (log.topic, log.partition) in asked:
            topic = topics.setdefault(log.topic, DescribeLogDirsTopic(name=log.topic))
            is_future = data_dir.futures.get((log.topic, log.partition)) is log
            topic.partitions.append(_describe_log(log, node, is_future=is_future))
    result.topics = list(topics.values())
    return result


def _describe_log(log: Log, node: Node, *, is_future: bool) -> DescribeLogDirsPartition:
    """Describe a log, or a future replica; its lag is relative to the log that is served."""
    partition = node.replicas.partitions.get((log.topic, log.partition))
    if partition is None:
        offset_lag = INVALID_OFFSET_LAG
    elif partition.log is log:
        offset_lag = max(0, log.high_watermark - log.log_end_offset)
    else:
        offset_lag = partition.log.log_end_offset - log.log_end_offset
    return DescribeLogDirsPartition(
        partition_index=log.partition,
        partition_size=log.size_bytes,
        offset_lag=offset_lag,
        is_future_key=is_future,
    )
