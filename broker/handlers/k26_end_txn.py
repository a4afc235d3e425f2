"""EndTxn 0-5: commit or abort a transaction.

It is answered once the decision is committed in `__transaction_state`. The markers in the logs of
the partitions follow; until they are all there, the next transaction of the same producer has to
wait (CONCURRENT_TRANSACTIONS). v5 is that of version 2 of transactions: the answer holds the id and
epoch with which the producer goes on (core/transactions/ending.py).
"""

from collections.abc import Awaitable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse
from odradek.protocol.schema import Message

from ..core.effects import Producer
from ..core.transactions.requests import EndTransaction
from ..core.transactions.shard import NOBODY, TransactionShard
from ..net.call import Call
from ..node import Node
from . import TRANSACTIONS_V2, Answer
from .transaction_codes import fencing_code

FENCED_VERSION_FIRST: Final = 2
EPOCH_BUMP_VERSION_FIRST: Final = 5


def handle(request: EndTxnRequest, call: Call, node: Node) -> Answer:
    """Let the transactional id's shard decide."""

    def respond(code: ErrorCode, producer: Producer = NOBODY) -> EndTxnResponse:
        return EndTxnResponse(
            error_code=fencing_code(code, call.version, FENCED_VERSION_FIRST),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )

    if not request.transactional_id:
        return respond(ErrorCode.INVALID_REQUEST)
    try:
        shard = node.transactions.shard_of(request.transactional_id)
    except Refused as refused:
        return respond(refused.code)
    client_version = TRANSACTIONS_V2 if call.version >= EPOCH_BUMP_VERSION_FIRST else 0
    asked = EndTransaction(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        request.committed,
        respond,
        client_version,
    )
    if shard.needs_producer_id_to_end(request.transactional_id, client_version):
        return _end_with_next_id(asked, call, node)
    return _end(asked, call, node)


async def _end_with_next_id(asked: EndTransaction, call: Call, node: Node) -> Message:
    try:
        next_id = await node.producer_ids.next_id()
    except Refused as refused:
        return asked.respond(refused.code, NOBODY)
    answer = _end(asked._replace(new_producer_id=next_id), call, node)
    return await answer if isinstance(answer, Awaitable) else answer


def _end(asked: EndTransaction, call: Call, node: Node) -> Message | Awaitable[Message]:
    def refused(code: ErrorCode) -> Message:
        return asked.respond(code, NOBODY)

    return node.transactions.ask(TransactionShard.end, asked.transactional_id, asked, call, refused)
