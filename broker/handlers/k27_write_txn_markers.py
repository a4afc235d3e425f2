"""WriteTxnMarkers 0-2: write the ends of transactions into the logs of partitions.

Coordinators send it, and admin tools to end a hanging transaction. A marker is answered once the
high watermark has passed it, as a Produce with acks=all. Offsets that were committed in the
transaction show, or are dropped, before the answer. v2 names the version of the transaction, by
which the epoch of the marker is checked.
"""

from collections.abc import Awaitable

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from odradek.protocol.records import Marker, MarkerType
from odradek.storage.errors import StorageError

from ..core.acls.terms import Operation
from ..core.partition import Partition
from ..core.storage_errors import code_of
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from .delayed_produce import Appended, DelayedProduce


def handle(
    request: WriteTxnMarkersRequest, call: Call, node: Node
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Append the markers that can be appended."""
    call.usage = None  # exempt from quotas, as in Kafka, unless the client had no right
    response = WriteTxnMarkersResponse(markers=[])
    pending: list[Appended] = []
    for marker in request.markers:
        response.markers.append(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            _append(node, (topic.name, index), marker, pending)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
        )
    if not pending:
        _end_offsets(request, response, node)
        return response
    return _answer_later(request, response, pending, node)


def guarded(
    request: WriteTxnMarkersRequest, call: Call, node: Node, rights: Rights
) -> WriteTxnMarkersResponse | Awaitable[WriteTxnMarkersResponse]:
    """Brokers may do it, and who may alter the cluster."""
    if rights.cluster(Operation.ALTER, quietly=True) or rights.cluster(Operation.CLUSTER_ACTION):
        return handle(request, call, node)
    return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def _refused(request: WriteTxnMarkersRequest, code: ErrorCode) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


async def _answer_later(
    request: WriteTxnMarkersRequest,
    response: WriteTxnMarkersResponse,
    pending: list[Appended],
    node: Node,
) -> WriteTxnMarkersResponse:
    await DelayedProduce(
        response,
        pending,
        node.settled_answers,
        acks_all=True,
        timeout_ms=node.config.request_timeout_ms,
        lost=_lost,
    )
    _end_offsets(request, response, node)
    return response


def _end_offsets(
    request: WriteTxnMarkersRequest, response: WriteTxnMarkersResponse, node: Node
) -> None:
    """Commit or drop the offsets of the transactions whose markers are committed (KAFKA-17507)."""
    for marker, result in zip(request.markers, response.markers, strict=True):
        for topic in result.topics:
            if topic.name == GROUP_OFFSETS_TOPIC:
                for partition in topic.partitions:
                    if partition.error_code == ErrorCode.NONE:
                        node.groups.transaction_ended(
                            partition.partition_index,
                            marker.producer_id,
                            is_committed=marker.transaction_result,
                        )


def _lost(partition: Partition, result: WritableTxnMarkerPartitionResult) -> None:
    result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER


def _append(
    node: Node,
    key: tuple[str, int],
    marker: WritableTxnMarker,
    pending: list[Appended],
) -> WritableTxnMarkerPartitionResult:
    result = WritableTxnMarkerPartitionResult(partition_index=key[1])
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        result.error_code = ErrorCode.INVALID_REQUEST
        return result
    partition = node.replicas.partitions.get(key)
    if partition is None:
        result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return result
    end = Marker(
        MarkerType.COMMIT if marker.transaction_result else MarkerType.ABORT,
        marker.coordinator_epoch,
    )
    try:
        offset_end = partition.append_marker(
            end,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            wall_ms=node.clock.wall_ms(),
            transaction_version=marker.transaction_version,
        )
    except Refused as refused:
        result.error_code = refused.code
    except StorageError as error:
        node.replicas.note_failure(error)
        result.error_code = code_of(error)
    else:
        if partition.log.high_watermark < offset_end:
            pending.append(Appended(partition, offset_end, result, is_idempotent=False))
    return result
