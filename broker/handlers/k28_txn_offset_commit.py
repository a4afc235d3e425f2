"""TxnOffsetCommit 0-4: store a group's offsets as part of a producer's transaction (KIP-98).

Answered once the records are committed. The offsets show when the transaction is committed. From v3
on the request may name the group's member, so that one that was replaced is refused (KIP-447).
"""

from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from ..core.groups.offsets_answers import refuse_txn_commit, there_in
from ..core.groups.shard import Shard
from ..net.call import Call
from ..node import Node
from . import Answer

LOADING_VERSION_FIRST: Final = 2
"""Older producers may crash at COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""


def handle(request: TxnOffsetCommitRequest, call: Call, node: Node) -> Answer:
    """Let the group decide, unless none of the partitions exists."""
    exists = node.groups.exists

    def refused(code: ErrorCode) -> TxnOffsetCommitResponse:
        is_loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        if is_loading and call.version < LOADING_VERSION_FIRST:
            code = ErrorCode.COORDINATOR_NOT_AVAILABLE
        return refuse_txn_commit(request, code, exists)

    if not there_in(request, exists):
        return refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if not request.group_id:
        return refused(ErrorCode.INVALID_GROUP_ID)
    if request.producer_id < 0 or request.producer_epoch < 0:  # nobody's
        return refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    return node.groups.ask(
        Shard.commit_offsets_in_transaction, request.group_id, request, call, refused
    )
