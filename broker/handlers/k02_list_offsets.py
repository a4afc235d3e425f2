"""ListOffsets 0-9: offsets by timestamp, and both ends of a log.

Negative timestamps select special offsets: -1 the end that consumers may read to (the high
watermark, or with read_committed the last stable offset), -2 the start, -3 the record with the
largest timestamp (v7), -4 the start of local storage, which holds everything (v8), -5 the end of
remote storage, which does not exist (v9).

Brokers and debuggers are answered up to the log end, and debuggers by followers too. While a new
leader does not yet know that its predecessors' records are committed, consumers are told to retry
where the answer would send them backwards.

Look-ups by time may take long: a thread searches large batches, and requests that name many
partitions let others have their turn.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Generator, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k02_list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from odradek.storage.errors import StorageError
from odradek.storage.log.log import Log
from odradek.storage.log.timestamps import LongSearch, Search, TimestampOffset

from ..core.acls.terms import Operation
from ..core.partition import Partition
from ..core.storage_errors import code_of
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split
from ..slices import Slices

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
VERSION_FIRST: Final = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
NOT_FOUND: Final = (-1, -1, -1)
CONSUMER: Final = -1
DEBUGGER: Final = -2
NOT_AVAILABLE_VERSION_FIRST: Final = 5

Found = tuple[int, int, int]
"""Timestamp, offset, leader epoch."""


_Searched = TimestampOffset | None | MalformedMessage
"""What a search has found, or why there is nothing to find."""
_Answering = Generator[Search | None, _Searched, ListOffsetsResponse]
"""The steps to an answer: each yields what a thread has to search, or None to let others go on."""


def handle(
    request: ListOffsetsRequest, call: Call, node: Node
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up every partition that is named once."""
    return _run(_answer(request, call, node, refused=()), node)


def guarded(
    request: ListOffsetsRequest, call: Call, node: Node, rights: Rights
) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Look up the topics that the client may describe."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.DESCRIBE, topic.name)
    )
    return _run(_answer(request, call, node, refused=refused), node)


def _run(answering: _Answering, node: Node) -> ListOffsetsResponse | Awaitable[ListOffsetsResponse]:
    """Answer at once if no step takes long."""
    try:
        return _run_later(answering, next(answering), node)
    except StopIteration as answered:
        response: ListOffsetsResponse = answered.value
        return response


async def _run_later(
    answering: _Answering, search: Search | None, node: Node
) -> ListOffsetsResponse:
    threads = node.runtime.compress_offload or node.runtime.offload
    while True:
        searched: _Searched = None
        if search is None:
            await asyncio.sleep(0)
        else:
            try:
                searched = await threads(search.find)
            except MalformedMessage as error:
                searched = error
        try:
            search = answering.send(searched)
        except StopIteration as answered:
            response: ListOffsetsResponse = answered.value
            return response


def _answer(
    request: ListOffsetsRequest,
    call: Call,
    node: Node,
    *,
    refused: Sequence[ListOffsetsTopic],
) -> _Answering:
    """The steps to the answer; `refused` are topics that the client may not describe.

    A timestamp that the version does not know is refused first, before the partition is checked.
    """
    named = Counter(
        (topic.name, partition.partition_index)
        for topic in request.topics
        for partition in topic.partitions
    )
    topics = []
    slices = Slices(node.clock)
    for topic in request.topics:
        partitions = []
        for asked in topic.partitions:
            if slices.is_over:
                yield None
                slices = Slices(node.clock)
            try:
                if named[topic.name, asked.partition_index] > 1:
                    raise Refused(ErrorCode.INVALID_REQUEST)
                _check_known(asked.timestamp, call.version)
                partition = node.find(topic.name, asked.partition_index)
                _check(partition, asked.current_leader_epoch, request.replica_id)
                found = yield from _look_up(partition, asked.timestamp, call.version, request)
                partitions.append(_found(asked, found, call.version))
            except Refused as error:
                partitions.append(_refused(asked, error.code))
            except StorageError as error:
                node.replicas.note_failure(error)
                partitions.append(_refused(asked, code_of(error)))
            except MalformedMessage:  # in a batch that was read for its records
                partitions.append(_refused(asked, ErrorCode.CORRUPT_MESSAGE))
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topics += [
        ListOffsetsTopicResponse(
            name=topic.name, partitions=[_refused(asked, code) for asked in topic.partitions]
        )
        for topic in refused
    ]
    return ListOffsetsResponse(topics=topics)


def _check_known(timestamp: int, version: int) -> None:
    """Check that the version knows the timestamp.  Raises: Refused (UNSUPPORTED_VERSION)."""
    if version < VERSION_FIRST.get(timestamp, 0) or timestamp < LATEST_TIERED:
        raise Refused(ErrorCode.UNSUPPORTED_VERSION)


def _check(partition: Partition, current_leader_epoch: int, replica_id: int) -> None:
    """Check leadership and leader epoch; a debugger may ask a follower.  Raises: Refused."""
    try:
        partition.check_leader(current_leader_epoch)
    except Refused as refused:
        if replica_id != DEBUGGER or refused.code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
            raise


def _look_up(
    partition: Partition, timestamp: int, version: int, request: ListOffsetsRequest
) -> Generator[Search, _Searched, Found]:
    """Find the offset for a timestamp.  Raises: Refused, StorageError, MalformedMessage."""
    log = partition.log
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return -1, log.log_start_offset, log.epochs.epoch_of(log.log_start_offset)
    if timestamp == LATEST_TIERED:
        return NOT_FOUND
    if timestamp == LATEST:
        _check_available(partition, version, request)
        return -1, _end(partition, request), partition.state.leader_epoch
    found = yield from _search(log, timestamp)
    if found is None or found[1] >= _end(partition, request):
        _check_available(partition, version, request)
        return NOT_FOUND
    return found


def _search(log: Log, timestamp: int) -> Generator[Search, _Searched, TimestampOffset | None]:
    """Find a record by time.  Raises: StorageError, MalformedMessage."""
    offset_first = 0
    while True:
        try:
            if timestamp == MAX_TIMESTAMP:
                return log.max_timestamp_offset(leave_long=True)
            return log.offset_for_timestamp(timestamp, offset_first=offset_first, leave_long=True)
        except LongSearch as long:
            search = long.search
        found = yield search
        if isinstance(found, MalformedMessage):
            raise found
        if found is not None or timestamp == MAX_TIMESTAMP:
            return found
        offset_first = search.offset_end


def _end(partition: Partition, request: ListOffsetsRequest) -> int:
    """The end of the offsets that the client may learn."""
    log = partition.log
    if request.replica_id != CONSUMER:
        return log.log_end_offset
    return log.last_stable_offset if request.isolation_level else log.high_watermark


def _check_available(partition: Partition, version: int, request: ListOffsetsRequest) -> None:
    """Refuse consumers (except v0) while the high watermark is below the leader epoch's start.

    Raises: Refused (OFFSET_NOT_AVAILABLE, or before v5 LEADER_NOT_AVAILABLE).
    """
    is_behind = partition.epoch_start_offset > partition.log.high_watermark
    if request.replica_id == CONSUMER and is_behind and version > 0:
        known = version >= NOT_AVAILABLE_VERSION_FIRST
        raise Refused(ErrorCode.OFFSET_NOT_AVAILABLE if known else ErrorCode.LEADER_NOT_AVAILABLE)


def _found(asked: ListOffsetsPartition, found: Found, version: int) -> ListOffsetsPartitionResponse:
    timestamp, offset, leader_epoch = found
    response = ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=leader_epoch,
    )
    if version == 0:
        response.old_style_offsets = [offset] if offset >= 0 and asked.max_num_offsets > 0 else []
    return response


def _refused(asked: ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=code,
        timestamp=-1,
        offset=-1,
        leader_epoch=-1,
    )
