"""DescribeLogDirs 0-4: what lies in this broker's log directory, and how much room is left."""

import os

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k35_describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from odradek.storage.errors import LogDirFailed

from ..call import Call
from ..node import Node


def handle(request: DescribeLogDirsRequest, call: Call, node: Node) -> DescribeLogDirsResponse:
    """Describe the partitions asked for, or all."""
    asked = None
    if request.topics is not None:
        asked = {(topic.topic, p) for topic in request.topics for p in topic.partitions}
    topics: dict[str, DescribeLogDirsTopic] = {}
    for (name, index), partition in node.replicas.partitions.items():
        if asked is None or (name, index) in asked:
            topic = topics.setdefault(name, DescribeLogDirsTopic(name=name))
            topic.partitions.append(
                DescribeLogDirsPartition(
                    partition_index=index, partition_size=partition.log.size_bytes
                )
            )
    directory = node.replicas.data_dir
    result = DescribeLogDirsResult(
        log_dir=os.path.abspath(directory.path), topics=list(topics.values())
    )
    try:
        result.total_bytes, result.usable_bytes = directory.space()
    except LogDirFailed:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    if node.replicas.is_offline:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return DescribeLogDirsResponse(results=[result])
