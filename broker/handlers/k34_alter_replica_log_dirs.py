"""AlterReplicaLogDirs 0-2: move replicas to other log directories of this broker.

A successful answer means that the move has begun; DescribeLogDirs shows its progress.
"""

import asyncio
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k34_alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from odradek.storage.errors import LogDirFailed

from ..net.call import Call
from ..node import Node

ALTERED_AT_ONCE: Final = 16  # before yielding: each creates the files of a copy


async def handle(
    request: AlterReplicaLogDirsRequest, call: Call, node: Node
) -> AlterReplicaLogDirsResponse:
    """Begin each move; if a partition is named twice, the last entry counts."""
    wanted = {
        (topic.name, partition): directory.path
        for directory in request.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for number, ((topic, partition), path) in enumerate(wanted.items()):
        if number % ALTERED_AT_ONCE == ALTERED_AT_ONCE - 1:
            await asyncio.sleep(0)
        code = _alter(topic, partition, path, node)
        result = results.setdefault(topic, AlterReplicaLogDirTopicResult(topic_name=topic))
        result.partitions.append(
            AlterReplicaLogDirPartitionResult(partition_index=partition, error_code=code)
        )
    return AlterReplicaLogDirsResponse(results=list(results.values()))


def refuse(
    request: AlterReplicaLogDirsRequest, version: int, code: ErrorCode
) -> AlterReplicaLogDirsResponse:
    """Refuse each move."""
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirTopicResult(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _alter(topic: str, partition: int, path: str, node: Node) -> ErrorCode:
    try:
        node.replicas.moves.alter(topic, partition, path)
    except Refused as refused:
        unknown = node.metadata.partition(topic, partition) is None
        if refused.code == ErrorCode.REPLICA_NOT_AVAILABLE and unknown:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return refused.code
    except LogDirFailed as error:
        node.replicas.note_failure(error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    return ErrorCode.NONE
