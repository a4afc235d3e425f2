"""AddPartitionsToTxn 0-5: name the partitions that a transaction writes to, before it does.

Producers send it up to v3. From v4 on brokers send it, for several transactions, to ask whether
partitions were added, or to add those to which a producer of version 2 writes (KIP-890). The
partitions of a transaction are added all or none.
"""

import asyncio
from collections.abc import Awaitable, Sequence
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k24_add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from odradek.protocol.schema import Message

from ..core.acls.terms import Operation
from ..core.effects import Producer
from ..core.partition_state import TopicPartition
from ..core.topic_names import INTERNAL_TOPICS
from ..core.transactions.requests import AddPartitions
from ..core.transactions.shard import TransactionShard
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from . import TRANSACTIONS_V2
from .transaction_codes import fencing_code

BROKERS_VERSION_FIRST: Final = 4
FENCED_VERSION_FIRST: Final = 2

Codes = dict[TopicPartition, ErrorCode]


def refuse(
    request: AddPartitionsToTxnRequest, version: int, code: ErrorCode
) -> AddPartitionsToTxnResponse | None:
    """The answer to somebody who is no broker."""
    return None if version < BROKERS_VERSION_FIRST else AddPartitionsToTxnResponse(error_code=code)


async def handle(
    request: AddPartitionsToTxnRequest, call: Call, node: Node, rights: Rights | None = None
) -> AddPartitionsToTxnResponse:
    """Let the shard of each transaction decide; brokers have seen to the rights of producers."""
    if call.version >= BROKERS_VERSION_FIRST:
        results = await asyncio.gather(
            *(_result(transaction, call, node) for transaction in request.transactions)
        )
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )
    result = await _result(transaction, call, node, rights)
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=result.topic_results)


guarded = handle


async def _result(
    transaction: AddPartitionsToTxnTransaction,
    call: Call,
    node: Node,
    rights: Rights | None = None,
) -> AddPartitionsToTxnResult:
    partitions = [(topic.name, index) for topic in transaction.topics for index in topic.partitions]
    codes = None
    if rights is not None:
        codes = _without_rights(transaction.transactional_id, partitions, rights)
    if codes is None:
        codes = _refusals(partitions, call, node, rights)
    if codes is None and transaction.verify_only:
        codes = _verified(transaction, partitions, node)
    elif codes is None:
        codes = await _add(transaction, partitions, call, node)
    return AddPartitionsToTxnResult(
        transactional_id=transaction.transactional_id,
        topic_results=_topic_results(transaction.topics, codes),
    )


def _without_rights(
    transactional_id: str, partitions: Sequence[TopicPartition], rights: Rights
) -> Codes | None:
    """Codes for a producer that may not use the transactional id."""
    if rights.transactional_id(Operation.WRITE, transactional_id):
        return None
    return dict.fromkeys(partitions, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)


def _refusals(
    partitions: Sequence[TopicPartition], call: Call, node: Node, rights: Rights | None
) -> Codes | None:
    """Codes if some of the partitions do not exist or are not for clients: then nothing is done."""
    codes = {key: _code_of(key, call, node, rights) for key in partitions}
    if not any(codes.values()):
        return None
    return {key: code or ErrorCode.OPERATION_NOT_ATTEMPTED for key, code in codes.items()}


def _code_of(key: TopicPartition, call: Call, node: Node, rights: Rights | None) -> ErrorCode:
    if key[0] in INTERNAL_TOPICS and call.version < BROKERS_VERSION_FIRST:
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if rights is not None and not rights.topic(Operation.WRITE, key[0]):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = node.metadata.partition(*key)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if known is None else ErrorCode.NONE


async def _add(
    transaction: AddPartitionsToTxnTransaction,
    partitions: Sequence[TopicPartition],
    call: Call,
    node: Node,
) -> Codes:
    transactional_id = transaction.transactional_id

    def respond(code: ErrorCode) -> Message:
        return AddPartitionsToTxnResponse(error_code=code)

    answer: Message | Awaitable[Message] = respond(ErrorCode.INVALID_REQUEST)
    if transactional_id:
        producer = Producer(transaction.producer_id, transaction.producer_epoch)
        is_of_broker = call.version >= BROKERS_VERSION_FIRST
        client_version = TRANSACTIONS_V2 if is_of_broker else 0
        asked = AddPartitions(transactional_id, producer, partitions, respond, client_version)
        answer = node.transactions.ask(
            TransactionShard.add_partitions, transactional_id, asked, call, respond
        )
    found = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(found, AddPartitionsToTxnResponse)
    code = fencing_code(ErrorCode(found.error_code), call.version, FENCED_VERSION_FIRST)
    return dict.fromkeys(partitions, code)


def _verified(
    transaction: AddPartitionsToTxnTransaction, partitions: Sequence[TopicPartition], node: Node
) -> Codes:
    """Whether the partitions are in the transaction."""
    transactional_id = transaction.transactional_id
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    try:
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        shard = node.transactions.shard_of(transactional_id)
        missing = shard.missing_partitions(transactional_id, producer, partitions)
    except Refused as refused:
        return dict.fromkeys(partitions, refused.code)
    return {
        key: ErrorCode.TRANSACTION_ABORTABLE if key in missing else ErrorCode.NONE
        for key in partitions
    }


def _topic_results(
    topics: Sequence[AddPartitionsToTxnTopic], codes: Codes
) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=index, partition_error_code=codes[topic.name, index]
                )
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
