"""InitProducerId 0-5: a producer id, or the next epoch of a transactional id.

A producer that has a transactional id gets the id's producer id with the next epoch, which fences
its older producers. If one of them left a transaction open, it is aborted first, and the answer is
CONCURRENT_TRANSACTIONS until that is done.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k22_init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)

from ..core.acls.terms import Operation, ResourceType
from ..core.effects import Producer
from ..core.transactions.requests import InitProducer
from ..core.transactions.transaction import NONE
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights
from .transaction_codes import fencing_code

NOBODY: Final = Producer(NONE, NONE)
FENCED_VERSION_FIRST: Final = 4


async def handle(request: InitProducerIdRequest, call: Call, node: Node) -> InitProducerIdResponse:
    """Check the request, then let the transactional id's shard decide."""

    def respond(code: ErrorCode, producer: Producer = NOBODY) -> InitProducerIdResponse:
        return InitProducerIdResponse(
            error_code=fencing_code(code, call.version, FENCED_VERSION_FIRST),
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
        )

    transactional_id = request.transactional_id
    claimed = Producer(request.producer_id, request.producer_epoch)
    if (claimed.producer_id == NONE) is not (claimed.producer_epoch == NONE):
        return respond(ErrorCode.INVALID_REQUEST)
    try:
        if transactional_id is None:
            return respond(ErrorCode.NONE, Producer(await node.producer_ids.next_id(), 0))
        return await _init(request, transactional_id, claimed, call, node, respond)
    except Refused as refused:
        return respond(refused.code)


async def guarded(
    request: InitProducerIdRequest, call: Call, node: Node, rights: Rights
) -> InitProducerIdResponse:
    """Without a transactional id it is enough that the client may write to some topic."""
    if request.transactional_id is not None:
        if not rights.transactional_id(Operation.WRITE, request.transactional_id):
            return _no_right(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    elif not (
        rights.cluster(Operation.IDEMPOTENT_WRITE, quietly=True)
        or rights.may_some(Operation.WRITE, ResourceType.TOPIC)
    ):
        return _no_right(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return await handle(request, call, node)


def _no_right(code: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        error_code=code, producer_id=NOBODY.producer_id, producer_epoch=NOBODY.producer_epoch
    )


async def _init(
    request: InitProducerIdRequest,
    transactional_id: str,
    claimed: Producer,
    call: Call,
    node: Node,
    respond: Callable[..., InitProducerIdResponse],
) -> InitProducerIdResponse:
    """Raises: Refused."""
    from ..core.transactions.shard import TransactionShard

    if not transactional_id:
        raise Refused(ErrorCode.INVALID_REQUEST)
    if not 0 < request.transaction_timeout_ms <= node.config.transaction_max_timeout_ms:
        raise Refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
    known = None if claimed == NOBODY else claimed
    shard = node.transactions.shard_of(transactional_id)
    new_id = None
    if shard.needs_producer_id(transactional_id, known):
        new_id = await node.producer_ids.next_id()
    asked = InitProducer(transactional_id, request.transaction_timeout_ms, known, new_id, respond)
    answer = node.transactions.ask(
        TransactionShard.init_producer, transactional_id, asked, call, respond
    )
    found = await answer if isinstance(answer, Awaitable) else answer
    assert isinstance(found, InitProducerIdResponse)
    return found
