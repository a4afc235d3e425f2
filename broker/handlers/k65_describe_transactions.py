"""DescribeTransactions 0: the states of transactional ids that this broker coordinates.

An id that is named twice is described once: otherwise a small request could return megabytes many
times over.
"""

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k65_describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)

from ..core.acls.terms import Operation
from ..core.partition_state import by_topic
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split


def handle(
    request: DescribeTransactionsRequest, call: Call, node: Node
) -> DescribeTransactionsResponse:
    """Describe the transactional ids, in the order of the request."""
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(each, node) for each in dict.fromkeys(request.transactional_ids)
        ]
    )


def guarded(
    request: DescribeTransactionsRequest, call: Call, node: Node, rights: Rights
) -> DescribeTransactionsResponse:
    """Describe the ids that the client may describe, with those of the topics."""
    request.transactional_ids, refused = split(
        request.transactional_ids,
        lambda name: rights.transactional_id(Operation.DESCRIBE, name),
    )
    response = handle(request, call, node)
    for described in response.transaction_states:
        described.topics = [
            topic
            for topic in described.topics
            if rights.topic(Operation.DESCRIBE, topic.topic, quietly=True)
        ]
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    response.transaction_states += [
        TransactionState(transactional_id=name, error_code=code) for name in refused
    ]
    return response


def _describe(transactional_id: str, node: Node) -> TransactionState:
    described = TransactionState(transactional_id=transactional_id)
    try:
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        transaction = node.transactions.shard_of(transactional_id).describe(transactional_id)
    except Refused as refused:
        described.error_code = refused.code
        return described
    known = transaction.known
    described.transaction_state = known.state.kafka_name
    described.transaction_timeout_ms = known.timeout_ms
    described.transaction_start_time_ms = known.start_ms
    described.producer_id, described.producer_epoch = transaction.producer
    described.topics = [
        TopicData(topic=name, partitions=indexes)
        for name, indexes in by_topic(transaction.open_partitions).items()
    ]
    return described
