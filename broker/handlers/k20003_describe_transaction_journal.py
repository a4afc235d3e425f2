"""DescribeTransactionJournal 0: what transactional ids wait for, and what happened to them.

Odradek's own, not advertised. A request may name at most `IDS_MAX` ids, because a journal may be
tens of KB long.
"""

from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k20003_describe_transaction_journal import (
    DescribedTransactionJournal,
    DescribeTransactionJournalRequest,
    DescribeTransactionJournalResponse,
    JournalEntry,
    MissingMarker,
)

from ..core.acls.terms import Operation
from ..core.partition_state import TopicPartition
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split

IDS_MAX: Final = 20
DEAD: Final = "Dead"
NO_LEADER: Final = -1


def handle(
    request: DescribeTransactionJournalRequest, call: Call, node: Node
) -> DescribeTransactionJournalResponse:
    """Return the state and the journal of each transactional id, the oldest entry first."""
    asked = list(dict.fromkeys(request.transactional_ids))
    told = [_told(transactional_id, node) for transactional_id in asked[:IDS_MAX]]
    too_many = Refused(ErrorCode.INVALID_REQUEST, f"at most {IDS_MAX} ids a request")
    refused = [_refused(transactional_id, too_many) for transactional_id in asked[IDS_MAX:]]
    return DescribeTransactionJournalResponse(transactions=told + refused)


def guarded(
    request: DescribeTransactionJournalRequest, call: Call, node: Node, rights: Rights
) -> DescribeTransactionJournalResponse:
    """Return the journals of ids that the client may describe."""
    request.transactional_ids, refused = split(
        request.transactional_ids,
        lambda name: rights.transactional_id(Operation.DESCRIBE, name),
    )
    response = handle(request, call, node)
    no_right = Refused(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    response.transactions += [_refused(name, no_right) for name in dict.fromkeys(refused)]
    for described in response.transactions:
        described.missing_markers = [
            marker
            for marker in described.missing_markers
            if rights.topic(Operation.DESCRIBE, marker.topic, quietly=True)
        ]
    return response


def _told(transactional_id: str, node: Node) -> DescribedTransactionJournal:
    described = DescribedTransactionJournal(transactional_id=transactional_id)
    try:
        shard = node.transactions.shard_of(transactional_id)
        entries = shard.entries(transactional_id)
        described.entries = [
            JournalEntry(
                timestamp_ms=entry.wall_ms,
                event=entry.event,
                client=entry.who,
                reason=entry.reason,
            )
            for entry in entries
        ]
        transaction = shard.describe(transactional_id)
    except Refused as refused:
        if refused.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND and described.entries:
            described.transaction_state = DEAD
            return described
        return _refused(transactional_id, refused)
    known, pending = transaction.known, transaction.pending
    described.transaction_state = known.state.kafka_name
    described.pending_state = None if pending is None else pending.kafka_name
    described.producer_id, described.producer_epoch = transaction.producer
    described.transaction_timeout_ms = known.timeout_ms
    described.transaction_start_time_ms = known.start_ms
    described.partition_count = len(known.partitions)
    described.missing_markers = [
        MissingMarker(topic=key[0], partition=key[1], leader_id=_leader_of(key, node))
        for key in sorted(transaction.unmarked)
    ]
    return described


def _leader_of(key: TopicPartition, node: Node) -> int:
    state = node.metadata.partition(*key)
    return NO_LEADER if state is None else max(state.leader, NO_LEADER)


def _refused(transactional_id: str, refused: Refused) -> DescribedTransactionJournal:
    return DescribedTransactionJournal(
        transactional_id=transactional_id, error_code=refused.code, error_message=refused.message
    )
