"""ListTransactions 0-2: the transactional ids that this broker coordinates, filtered."""

from collections.abc import Callable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k66_list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)

from ..core.acls.terms import Operation
from ..core.transactions.requests import Filters
from ..core.transactions.states import TransactionState as State
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights

_NAMES: Final = frozenset(state.kafka_name for state in State)


def handle(request: ListTransactionsRequest, call: Call, node: Node) -> ListTransactionsResponse:
    """List the matching transactional ids; none while some are still being loaded."""
    if node.transactions.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    states = frozenset(request.state_filters)
    unknown = [name for name in dict.fromkeys(request.state_filters) if name not in _NAMES]
    try:
        names = _names(request.transactional_id_pattern)
    except Refused as refused:
        return ListTransactionsResponse(error_code=refused.code)
    filters = Filters(
        states=states or None,
        producer_ids=frozenset(request.producer_id_filters) or None,
        duration_ms=request.duration_filter,
        names=names,
    )
    wall_ms = node.clock.wall_ms()
    return ListTransactionsResponse(
        unknown_state_filters=unknown,
        transaction_states=[
            TransactionState(
                transactional_id=found.transactional_id,
                producer_id=found.known.producer_id,
                transaction_state=found.known.state.kafka_name,
            )
            for shard in node.transactions.shards()
            for found in shard.listed(filters, wall_ms)
        ],
    )


def guarded(
    request: ListTransactionsRequest, call: Call, node: Node, rights: Rights
) -> ListTransactionsResponse:
    """List the ids that the client may describe."""
    response = handle(request, call, node)
    response.transaction_states = [
        state
        for state in response.transaction_states
        if rights.transactional_id(Operation.DESCRIBE, state.transactional_id, quietly=True)
    ]
    return response


def _names(pattern: str | None) -> Callable[[str], bool] | None:
    """Which transactional ids match (KIP-1152).  Raises: Refused (INVALID_REGULAR_EXPRESSION)."""
    if not pattern:
        return None
    from ..core.groups.regex import compile_pattern  # rarely needed

    compiled = compile_pattern(pattern)
    return lambda name: compiled.fullmatch(name) is not None
