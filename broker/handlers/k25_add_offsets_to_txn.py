"""AddOffsetsToTxn 0-4: a transaction will commit offsets of a group.

That adds the group's partition of `__consumer_offsets` to the transaction.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k25_add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from odradek.protocol.schema import Message

from ..core.effects import Producer
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..core.transactions.requests import AddPartitions
from ..core.transactions.shard import TransactionShard
from ..net.call import Call
from ..node import Node
from .transaction_codes import fencing_code

FENCED_VERSION_FIRST: Final = 2
CREATE_TIMEOUT_MS: Final = 500  # the producer asks again


async def handle(request: AddOffsetsToTxnRequest, call: Call, node: Node) -> Message:
    """Let the transactional id's shard decide."""

    def respond(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(
            error_code=fencing_code(code, call.version, FENCED_VERSION_FIRST)
        )

    if not request.transactional_id:
        return respond(ErrorCode.INVALID_REQUEST)
    try:
        number = await node.groups.topic.find_partition(
            request.group_id, timeout_ms=CREATE_TIMEOUT_MS
        )
    except Refused as refused:
        return respond(refused.code)
    asked = AddPartitions(
        request.transactional_id,
        Producer(request.producer_id, request.producer_epoch),
        [(GROUP_OFFSETS_TOPIC, number)],
        respond,
    )
    answer = node.transactions.ask(
        TransactionShard.add_partitions, request.transactional_id, asked, call, respond
    )
    return await answer if isinstance(answer, Awaitable) else answer
