"""Produce 0-12: append record batches.

Each partition gets its own result; a refused one does not prevent the others from being appended.
Idempotent batches are checked against the producer's last ones. If nothing has to wait for a flush
or for followers, the answer is immediate; otherwise it is delayed (delayed_produce.py). If a topic
has a codec of its own, its batches are compressed first. What takes long is left to a thread:
compressing much, and checking a batch of very many records or of much data (waiting_produce.py).

Transactional batches need a transactional id in the request, and all must be of one producer. The
first one of a transaction in a partition may have to wait for its coordinator (verification.py);
with v12 it adds the partition to the transaction.

Versions 0-2 carry older formats, which are not supported: every partition is answered
UNSUPPORTED_FOR_MESSAGE_FORMAT.
"""

import contextlib
from collections.abc import Awaitable, Callable

from odradek.protocol.errors import ErrorCode, MalformedMessage, Refused
from odradek.protocol.messages.k00_produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from odradek.protocol.records import TRANSACTIONAL, BatchHeader, read_header
from odradek.storage.errors import StorageError

from ..core.effects import Producer
from ..core.incoming_batch import (
    RefusedRecords,
    TakesLong,
    check_batch,
    check_recompressed,
    is_quick,
    read_only_batch,
    recompress,
    recompression,
)
from ..core.partition import Partition
from ..core.partition_state import TopicPartition
from ..core.refused_batches import note_refused
from ..core.storage_errors import code_of
from ..core.topic_names import INTERNAL_TOPICS
from ..net.call import Call, CloseConnection
from ..node import Node
from ..rights.rights import Rights
from ..runtime import Offload
from ..settings.topic_config import TopicConfig
from ..transactions.verifier import NotVerified
from .delayed_produce import Appended, DelayedProduce
from .leader_hints import current_leader, endpoints
from .produce_rights import refusal_of_all, refusal_of_topic
from .verification import Verdict, check_guarded, verification
from .waiting_produce import Ready, WaitingBatch, append_when_ready

RECORDS_V2_VERSION_FIRST = 3
ABORTABLE_VERSION_FIRST = 11
ADDING_VERSION_FIRST = 12
ADMIN_CLIENT_ID = "__admin_client"
_CODES_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


def handle(
    request: ProduceRequest, call: Call, node: Node, rights: Rights | None = None
) -> ProduceResponse | Awaitable[ProduceResponse | None] | None:
    """Append; with acks=0 nothing is answered, and a failure closes the connection."""
    response = ProduceResponse(responses=[])
    appended: list[Appended] = []
    waiting: list[WaitingBatch] = []
    all_refused = _refusal_of_all(request, call.version, rights)
    for topic in request.topic_data:
        results: list[PartitionProduceResponse] = []
        refused = all_refused
        if rights is not None and refused is None:
            refused = refusal_of_topic(topic.name, rights)
        for data in topic.partition_data:
            if refused is not None:
                results.append(_refused(data.index, refused))
                continue
            result = _append(node, call, request, topic.name, data, appended)
            if isinstance(result, WaitingBatch):
                result.reserve(results)
                waiting.append(result)
                continue
            results.append(result)
            if result.error_code:
                assert data.records is None or isinstance(data.records, memoryview)
                with contextlib.suppress(MalformedMessage):
                    header = read_header(data.records or b"")
                    code = ErrorCode(result.error_code)
                    note_refused(call.client, (topic.name, data.index), header, code)
                if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                    _name_leader(response, topic.name, result, call, node)
        if results:
            response.responses.append(
                TopicProduceResponse(name=topic.name, partition_responses=results)
            )
    if waiting:
        return _append_later(waiting, request, response, appended, call, node)
    return _answer(request, response, appended, call, node)


guarded = handle


def _answer(
    request: ProduceRequest,
    response: ProduceResponse,
    appended: list[Appended],
    call: Call,
    node: Node,
) -> ProduceResponse | Awaitable[ProduceResponse] | None:
    if request.acks != 0:
        return _delayed(request, response, appended, call, node) if appended else response
    failed = [r for t in response.responses for r in t.partition_responses if r.error_code]
    if failed:
        raise CloseConnection(f"Produce with acks=0 failed: {ErrorCode(failed[0].error_code).name}")
    return None


def _delayed(
    request: ProduceRequest,
    response: ProduceResponse,
    appended: list[Appended],
    call: Call,
    node: Node,
) -> ProduceResponse | Awaitable[ProduceResponse]:
    acks_all = request.acks == -1
    pending = [each for each in appended if not each.may_be_answered(acks_all=acks_all)]
    if not pending:
        return response

    def lost(partition: Partition, result: PartitionProduceResponse) -> None:
        key = partition.state.topic, partition.state.partition
        served = node.replicas.partitions.get(key) is partition
        code = ErrorCode.NOT_LEADER_OR_FOLLOWER if served else node.code_for_absent(*key)
        result.error_code = code
        if code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _name_leader(response, key[0], result, call, node)

    return DelayedProduce(
        response,
        pending,
        node.settled_answers,
        acks_all=acks_all,
        timeout_ms=request.timeout_ms,
        lost=lost,
    )


def _append_later(
    waiting: list[WaitingBatch],
    request: ProduceRequest,
    response: ProduceResponse,
    appended: list[Appended],
    call: Call,
    node: Node,
) -> Awaitable[ProduceResponse | None]:
    size_bytes = sum(batch.size_bytes for batch in waiting)

    def append(batch: WaitingBatch, ready: Ready | Refused) -> PartitionProduceResponse:
        result = _append_ready(node, call, batch, ready, appended, acks_all=request.acks == -1)
        if result.error_code:
            key = batch.topic, batch.index
            note_refused(call.client, key, batch.header, ErrorCode(result.error_code))
        if result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            _name_leader(response, batch.topic, result, call, node)
        return result

    async def append_all() -> None:
        try:
            await append_when_ready(waiting, append)
        finally:
            call.client.let_go_memory(size_bytes)

    async def answer() -> ProduceResponse | None:
        await appending
        known = _answer(request, response, appended, call, node)
        return await known if isinstance(known, Awaitable) else known

    call.client.keep_memory(size_bytes)
    appending = node.tasks.finish(append_all())
    return answer()


def _refusal_of_all(request: ProduceRequest, version: int, rights: Rights | None) -> Refused | None:
    if request.acks not in (-1, 0, 1):
        return Refused(ErrorCode.INVALID_REQUIRED_ACKS)
    if version < RECORDS_V2_VERSION_FIRST:
        return Refused(ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT)
    refused = None if rights is None else refusal_of_all(request, rights)
    if refused is not None or request.transactional_id is None:
        return refused
    return _refusal_of_transaction(request)


def _refusal_of_transaction(request: ProduceRequest) -> Refused | None:
    """One request has batches of one producer; what is no batch is refused later.

    Batches wait for the coordinator. If one small request could name a partition any number of
    times, or invent an epoch for each, it would occupy the coordinator and much memory.
    """
    producers, partitions = set[Producer](), set[tuple[str, int]]()
    for topic in request.topic_data:
        for data in topic.partition_data:
            key = topic.name, data.index
            if key in partitions:
                return Refused(
                    ErrorCode.INVALID_REQUEST, f"{topic.name}-{data.index} is named twice"
                )
            partitions.add(key)
            with contextlib.suppress(MalformedMessage):
                assert data.records is None or isinstance(data.records, memoryview)
                header = read_header(data.records or b"")
                if header.is_transactional:
                    producers.add(_producer_of(header))
    if len(producers) > 1:
        return Refused(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the batches are of several producers"
        )
    return None


def _append(
    node: Node,
    call: Call,
    request: ProduceRequest,
    topic: str,
    data: PartitionProduceData,
    appended: list[Appended],
) -> PartitionProduceResponse | WaitingBatch:
    partition = node.replicas.partitions.get((topic, data.index))
    if partition is None:
        return _unknown(node, topic, data.index)
    batch = data.records
    assert batch is None or isinstance(batch, memoryview)
    try:
        header = read_only_batch(batch, call.version)
        if topic in INTERNAL_TOPICS and call.client_id != ADMIN_CLIENT_ID:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{topic} is the brokers' own")
        if header.attributes & TRANSACTIONAL and request.transactional_id is None:
            raise Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        refused_batches = call.client.refused_batches
        if refused_batches is not None:
            is_known = partition.log.producers.entry(header.producer_id) is not None
            refused_batches.check((topic, data.index), header, is_gap=not is_known)
    except Refused as refused:
        return _refused(data.index, refused)
    assert batch is not None
    try:
        partition.check_leader()
        if request.acks == -1:
            partition.check_enough_replicas()
        wall_ms, config = node.clock.wall_ms(), partition.config
        header, records_bytes = check_batch(
            batch,
            header,
            config,
            wall_ms=wall_ms,
            decompressed_bytes_max=node.decompressed_bytes_max,
            may_take_long=False,
        )
        if config.compression is not None or header.attributes & TRANSACTIONAL:
            asked = _verification(request, call, partition, header, node)
            stored = _as_stored(node, config, batch, header, records_bytes, asked)
            if callable(stored):
                return WaitingBatch(partition, header, stored)
            batch, header = stored
        return _append_checked(partition, batch, header, appended, wall_ms)
    except TakesLong:
        return _checked_later(node, partition, batch, header, request, call)
    except (Refused, StorageError) as error:
        return _failed(node, call, header, error, partition)


def _producer_of(header: BatchHeader) -> Producer:
    return Producer(header.producer_id, header.producer_epoch)


def _verification(
    request: ProduceRequest, call: Call, partition: Partition, header: BatchHeader, node: Node
) -> Verdict | None:
    """What a batch must wait for, if it is transactional.  Raises: Refused."""
    if request.transactional_id is None or not header.is_transactional:
        return None
    abortable = call.version >= ABORTABLE_VERSION_FIRST
    return verification(
        request.transactional_id,
        _producer_of(header),
        partition,
        node,
        abortable=abortable,
        adds=call.version >= ADDING_VERSION_FIRST,
        sequence=header.base_sequence,
    )


def _checked_later(
    node: Node,
    partition: Partition,
    batch: memoryview,
    header: BatchHeader,
    request: ProduceRequest,
    call: Call,
) -> WaitingBatch:
    """What a batch waits for that a thread has to check."""
    own = memoryview(bytearray(batch))
    config, wall_ms = partition.config, node.clock.wall_ms()

    def check() -> tuple[BatchHeader, int]:
        bytes_max = node.decompressed_bytes_max
        return check_batch(own, header, config, wall_ms=wall_ms, decompressed_bytes_max=bytes_max)

    async def prepare() -> Ready:
        checked, records_bytes = await _threads(node)(check)
        asked = _verification(request, call, partition, checked, node)
        stored = _as_stored(node, config, own, checked, records_bytes, asked)
        return await stored() if callable(stored) else stored

    return WaitingBatch(partition, header, prepare)


def _threads(node: Node) -> Offload:
    return node.runtime.compress_offload or node.runtime.offload


def _as_stored(
    node: Node,
    config: TopicConfig,
    batch: memoryview,
    header: BatchHeader,
    records_bytes: int,
    asked: Verdict | None,
) -> Ready | Callable[[], Awaitable[Ready]]:
    """The batch as its topic stores it, or what prepares it.  Raises: Refused."""
    compression = recompression(header, config)
    bytes_max = node.decompressed_bytes_max
    is_slow = compression is not None and not is_quick(compression, records_bytes)
    if asked is None and not is_slow:
        if compression is None:
            return batch, header
        stored = recompress(batch, header, compression, bytes_max)
        check_recompressed(stored[1], config)
        return stored
    own = memoryview(bytearray(batch))

    async def prepare() -> Ready:
        if asked is not None:
            await asked
        if compression is None:
            return own, header
        return await _threads(node)(recompress, own, header, compression, bytes_max)

    return prepare


def _append_ready(
    node: Node,
    call: Call,
    waited: WaitingBatch,
    ready: Ready | Refused,
    appended: list[Appended],
    *,
    acks_all: bool,
) -> PartitionProduceResponse:
    """Append a batch that has waited, if that is still allowed."""
    is_guarded = waited.ends_guarded()
    partition = node.replicas.partitions.get((waited.topic, waited.index))
    if partition is None:
        return _unknown(node, waited.topic, waited.index)
    if isinstance(ready, Refused):  # not raised again: the traceback would hold `ready`
        return _failed(node, call, waited.header, ready, partition)
    batch, header = ready
    try:
        partition.check_leader()
        if acks_all:
            partition.check_enough_replicas()
        check_recompressed(header, partition.config)
        check_guarded(is_guarded, _producer_of(header), partition)
        return _append_checked(partition, batch, header, appended, node.clock.wall_ms())
    except (Refused, StorageError) as error:
        return _failed(node, call, waited.header, error, partition)


def _append_checked(
    partition: Partition,
    batch: memoryview,
    header: BatchHeader,
    appended: list[Appended],
    wall_ms: int,
) -> PartitionProduceResponse:
    """Append a batch, unless it is a duplicate.  Raises: Refused, StorageError."""
    log, config = partition.log, partition.config
    is_transactional = header.attributes & TRANSACTIONAL
    duplicate = log.producers.check(header) if header.producer_id >= 0 else None
    if duplicate is None:
        if is_transactional:
            partition.verification_guards.check_order(header)
        base_offset = partition.append(batch, header, wall_ms=wall_ms)
        if is_transactional:
            partition.verification_guards.appended(header.producer_id)
        append_time_ms = wall_ms if config.is_log_append_time else -1
        offset_end = log.log_end_offset
    else:
        base_offset = duplicate.base_offset
        append_time_ms = duplicate.timestamp  # even with create times, as in Kafka
        offset_end = duplicate.last_offset + 1
    result = PartitionProduceResponse(
        index=partition.state.partition,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=log.log_start_offset,
    )
    if log.high_watermark < offset_end:
        is_idempotent = header.producer_id >= 0
        appended.append(Appended(partition, offset_end, result, is_idempotent=is_idempotent))
    return result


def _cause(
    error: Refused | StorageError, call: Call, key: TopicPartition, header: BatchHeader
) -> Refused | StorageError:
    """The refusal of an earlier batch, if only that has made this one out of order."""
    refused_batches = call.client.refused_batches
    is_gap = getattr(error, "code", None) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    if is_gap and refused_batches is not None:
        try:
            refused_batches.check(key, header, is_gap=True)
        except Refused as earlier:
            return earlier
    return error


def _name_leader(
    response: ProduceResponse,
    topic: str,
    result: PartitionProduceResponse,
    call: Call,
    node: Node,
) -> None:
    """Tell a client that sent its request to the wrong broker where the leader is."""
    leader, epoch = current_leader(node, topic, result.index)
    result.current_leader = LeaderIdAndEpoch(leader_id=leader, leader_epoch=epoch)
    if all(known.node_id != leader for known in response.node_endpoints):
        found = endpoints(node, (leader,), call.client.entrance, NodeEndpoint)
        response.node_endpoints += found


def _unknown(node: Node, topic: str, index: int) -> PartitionProduceResponse:
    code = node.code_for_absent(topic, index)
    return PartitionProduceResponse(index=index, error_code=code, base_offset=-1)


def _failed(
    node: Node,
    call: Call,
    header: BatchHeader,
    error: Refused | StorageError,
    partition: Partition,
) -> PartitionProduceResponse:
    """The result of a partition whose log was used."""
    index = partition.state.partition
    error = _cause(error, call, partition.state.key, header)
    if isinstance(error, StorageError):
        node.replicas.note_failure(error)
        error = Refused(code_of(error), str(error))
    result = _refused(index, error, None if isinstance(error, NotVerified) else partition)
    if isinstance(error, RefusedRecords):
        result.record_errors = [
            BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in error.record_errors
        ]
    return result


def _refused(
    index: int, refused: Refused, partition: Partition | None = None
) -> PartitionProduceResponse:
    """`partition` is given if its log was used; Kafka then usually reports the log start."""
    log_start_offset = -1
    if partition is not None and refused.code not in _CODES_WITHOUT_LOG_START:
        log_start_offset = partition.log.log_start_offset
    return PartitionProduceResponse(
        index=index,
        error_code=refused.code,
        base_offset=-1,
        log_start_offset=log_start_offset,
        error_message=refused.message,
    )
