"""DeleteRecords 0-2: raise the log start of partitions; answered once that survives a crash.

Earlier records are no longer served; retention deletes their files later. The answer waits until
all live replicas have the new log start, but at most `timeout_ms`; without followers there is
nothing to wait for. Odradek's followers, unlike Kafka's, report a log start only once it is
checkpointed.
"""

import asyncio
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k21_delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.errors import LogDirFailed, StorageError

from ..core.acls.terms import Operation
from ..core.partition import Partition
from ..core.storage_errors import code_of
from ..core.topic_names import INTERNAL_TOPICS
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

HIGH_WATERMARK: Final = -1
NO_LOW_WATERMARK: Final = -1


class _Moved(NamedTuple):
    """A partition whose log start was raised on this broker, with its result."""

    partition: Partition
    offset: int
    result: DeleteRecordsPartitionResult


async def handle(request: DeleteRecordsRequest, call: Call, node: Node) -> DeleteRecordsResponse:
    """Raise every log start; for a partition named twice the last offset counts, as in Kafka."""
    offsets = {
        (topic.name, partition.partition_index): partition.offset
        for topic in request.topics
        for partition in topic.partitions
    }
    topics: dict[str, DeleteRecordsTopicResult] = {}
    moved: list[_Moved] = []
    for (name, index), offset in offsets.items():
        result = DeleteRecordsPartitionResult(partition_index=index)
        topic = topics.setdefault(name, DeleteRecordsTopicResult(name=name))
        topic.partitions.append(result)
        try:
            partition = _find(name, index, node)
            moved.append(_Moved(partition, _delete_before(offset, partition), result))
        except Refused as refused:
            _refuse(result, refused.code)
        except StorageError as error:
            node.replicas.note_failure(error)
            _refuse(result, code_of(error))
    durable = await _make_durable(moved, node)
    if durable:
        await _wait_for_followers(durable, request.timeout_ms, node)
    return DeleteRecordsResponse(topics=list(topics.values()))


async def guarded(
    request: DeleteRecordsRequest, call: Call, node: Node, rights: Rights
) -> DeleteRecordsResponse:
    """Do it for the topics whose records the client may delete."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.DELETE, topic.name)
    )
    response = await handle(request, call, node)
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response.topics += [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(
                    partition_index=partition.partition_index,
                    low_watermark=NO_LOW_WATERMARK,
                    error_code=code,
                )
                for partition in topic.partitions
            ],
        )
        for topic in refused
    ]
    return response


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
    """Raise the log start to `offset`, unless it is higher already; return the offset meant.

    Raises: Refused, OffsetOutOfRange (above the high watermark), LogDirFailed.
    """
    log = partition.log
    if offset == HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0:
        raise Refused(ErrorCode.OFFSET_OUT_OF_RANGE)
    log.advance_log_start(offset)
    return offset


async def _make_durable(moved: list[_Moved], node: Node) -> list[_Moved]:
    """Checkpoint the log starts, so that they survive a crash; return what was not refused.

    A full or failed log directory causes only its own partitions to be refused.  If a replica is
    moved to another directory meanwhile, its start is checkpointed there.
    """
    replicas = node.replicas
    while unsafe := [each for each in moved if _is_unsafe(each, node)]:
        by_dir: dict[DataDir | None, list[_Moved]] = {}
        for each in unsafe:
            data_dir = replicas.log_dirs.of(each.partition.log.directory)
            by_dir.setdefault(data_dir, []).append(each)
        for data_dir, those in by_dir.items():
            try:
                await replicas.checkpoint(data_dir)
            except LogDirFailed as error:
                for each in those:
                    _refuse(each.result, code_of(error))
    return [each for each in moved if not each.result.error_code]


def _is_unsafe(moved: _Moved, node: Node) -> bool:
    """Whether a crash would lose the new log start.

    False if the partition was refused, is no longer led here, or was truncated since.
    """
    partition, log, state = moved.partition, moved.partition.log, moved.partition.state
    is_here = node.replicas.partitions.get((state.topic, state.partition)) is partition
    if not is_here or not partition.is_leader or moved.result.error_code:
        return False
    return log.log_start_offset >= moved.offset > log.flushing.safe_start_offset(log)


async def _wait_for_followers(moved: list[_Moved], timeout_ms: int, node: Node) -> None:
    """Settle each result once all live replicas have the new log start, or at the timeout."""
    news = asyncio.Event()
    partitions = {each.partition for each in moved}
    for partition in partitions:
        partition.waiters.add(news.set)
    try:
        async with asyncio.timeout(max(0, timeout_ms) / 1000):
            while moved := [each for each in moved if not _is_settled(each, node)]:
                await news.wait()
                news.clear()
    except TimeoutError:
        for each in moved:
            _refuse(each.result, ErrorCode.REQUEST_TIMED_OUT)
    finally:
        for partition in partitions:
            partition.waiters.discard(news.set)


def _is_settled(moved: _Moved, node: Node) -> bool:
    partition, result = moved.partition, moved.result
    if not partition.is_leader:
        _refuse(result, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return True
    result.low_watermark = partition.low_watermark(node.metadata.brokers)
    return result.low_watermark >= moved.offset


def _refuse(result: DeleteRecordsPartitionResult, code: ErrorCode) -> None:
    result.low_watermark, result.error_code = NO_LOW_WATERMARK, code
