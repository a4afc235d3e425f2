"""DeleteRecords 0-2: let partitions start at a later offset; answered when that survives a crash.

What lies before is not read any more; its files go later, by retention. `timeout_ms` bounds the
wait for followers: a leader without any has nothing to wait for, so it never runs out.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.storage.errors import LogDirFailed, StorageError

from ..call import Call
from ..core.partition import Partition
from ..core.storage_errors import code_of
from ..core.topic_names import INTERNAL_TOPICS
from ..node import Node

HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


async def handle(request: DeleteRecordsRequest, call: Call, node: Node) -> DeleteRecordsResponse:
    """Move every partition; of one that is named twice the last offset counts, as in Kafka."""
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    topics: dict[str, DeleteRecordsTopicResult] = {}
    moved = []
    for (name, index), offset in offsets.items():
        result = DeleteRecordsPartitionResult(partition_index=index)
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name))
        topic.partitions.append(result)
        try:
            result.low_watermark = _delete_before(offset, _find(name, index, node))
            moved.append(result)
        except Refused as refused:
            _refuse(result, refused.code)
        except StorageError as error:
            node.replicas.note_failure(error)
            _refuse(result, code_of(error))
    if moved:
        await _make_durable(moved, node)
    return DeleteRecordsResponse(topics=list(topics.values()))


def _find(topic: str, index: int, node: Node) -> Partition:
    """The partition, if its records may be deleted.  Raises: Refused."""
    if node.metadata.partition(topic, index) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic in INTERNAL_TOPICS:
        raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION)
    partition = node.find(topic, index)
    partition.check_leader()
    if "delete" not in partition.config.cleanup_policy:
        raise Refused(ErrorCode.POLICY_VIOLATION)
    return partition


def _delete_before(offset: int, partition: Partition) -> int:
    """Return where the log starts now: no lower than before.

    Raises: Refused, OffsetOutOfRange (above the high watermark), LogDirFailed.
    """
    log = partition.log
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.advance_log_start(offset)
    return log.log_start_offset


async def _make_durable(moved: list[DeleteRecordsPartitionResult], node: Node) -> None:
    try:
        await node.replicas.checkpoint()
    except LogDirFailed as error:
        for result in moved:
            _refuse(result, code_of(error))


def _refuse(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    result.low_watermark, result.error_code = NO_LOW_WATERMARK, code
