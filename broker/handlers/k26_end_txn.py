"""EndTxn 0-4: commit or abort a transaction.

It is answered once the decision is committed in `__transaction_state`. The markers in the logs of
the partitions follow; until they are all there, the next transaction of the same producer has to
wait (CONCURRENT_TRANSACTIONS).
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k26_end_txn import EndTxnRequest, EndTxnResponse

from ..core.effects import Producer
from ..core.transactions.requests import EndTransaction
from ..core.transactions.shard import TransactionShard
from ..net.call import Call
from ..node import Node
from . import Answer
from .transaction_codes import fencing_code

FENCED_VERSION_FIRST: Final = 2


def handle(request: EndTxnRequest, call: Call, node: Node) -> Answer:
    """Let the transactional id's shard decide."""

    def respond(code: ErrorCode) -> EndTxnResponse:
        return EndTxnResponse(error_code=fencing_code(code, call.version, FENCED_VERSION_FIRST))

    transactional_id = request.transactional_id
    if not transactional_id:
        return respond(ErrorCode.INVALID_REQUEST)
    producer = Producer(request.producer_id, request.producer_epoch)
    asked = EndTransaction(transactional_id, producer, request.committed, respond)
    return node.transactions.ask(TransactionShard.end, transactional_id, asked, call, respond)
