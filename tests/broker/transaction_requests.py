"""Requests of transactional producers, of brokers among each other about them, and of admins."""

from typing import Any

from odradek.protocol.messages.k00_produce import ProduceRequest
from odradek.protocol.messages.k22_init_producer_id import InitProducerIdRequest
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.messages.k25_add_offsets_to_txn import AddOffsetsToTxnRequest
from odradek.protocol.messages.k26_end_txn import EndTxnRequest
from odradek.protocol.messages.k27_write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.support.messages import batch_of, produce_request

Identity = tuple[int, int]
"""Producer id and epoch."""
NOBODY = (-1, -1)


def init_producer(
    transactional_id: str | None, claimed: Identity = NOBODY, *, timeout_ms: int = 60_000
) -> InitProducerIdRequest:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=claimed[0],
        producer_epoch=claimed[1],
    )


def produce_in_transaction(
    transactional_id: str,
    producer: Identity,
    topic: str,
    partition: int = 0,
    *,
    sequence: int = 0,
    value: bytes = b"v",
    **more: Any,
) -> ProduceRequest:
    """A batch of one record."""
    batch = batch_of(
        value,
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=True,
        **more,
    )
    request = produce_request(topic, {partition: batch})
    request.transactional_id = transactional_id
    return request


def add_partitions(
    transactional_id: str, producer: Identity, topic: str, *partitions: int
) -> AddPartitionsToTxnRequest:
    """As producers send it, up to v3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[*partitions])],
    )


def ask_of_partitions(
    transactional_id: str,
    producer: Identity,
    topic: str,
    *partitions: int,
    verify_only: bool = True,
) -> AddPartitionsToTxnRequest:
    """As brokers send it, from v4 on."""
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        verify_only=verify_only,
        topics=[AddPartitionsToTxnTopic(name=topic, partitions=[*partitions])],
    )
    return AddPartitionsToTxnRequest(transactions=[transaction])


def add_offsets(transactional_id: str, producer: Identity, group_id: str) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        group_id=group_id,
    )


def end(transactional_id: str, producer: Identity, *, commits: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer[0],
        producer_epoch=producer[1],
        committed=commits,
    )


def write_markers(
    producer: Identity,
    topic: str,
    *partitions: int,
    commits: bool = True,
    coordinator_epoch: int = 0,
) -> WriteTxnMarkersRequest:
    marker = WritableTxnMarker(
        producer_id=producer[0],
        producer_epoch=producer[1],
        transaction_result=commits,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[*partitions])],
        coordinator_epoch=coordinator_epoch,
    )
    return WriteTxnMarkersRequest(markers=[marker])
