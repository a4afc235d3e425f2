"""TxnOffsetCommit 0-5: store a group's offsets as part of a producer's transaction (KIP-98).

Answered once the records are committed. The offsets show when the transaction is committed. From v3
on the request may name the group's member, so that one that was replaced is refused (KIP-447). The
first commit of a transaction may have to wait for its coordinator (verification.py); with v5 it
adds the partition of the group to the transaction.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.messages.k28_txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from odradek.protocol.schema import Message
from odradek.storage.errors import ProducerError

from ..core.acls.terms import Operation
from ..core.effects import Producer
from ..core.groups.offsets_answers import (
    commits_in,
    refuse_txn_commit,
    there_in,
    txn_commit_answer,
)
from ..core.groups.shard import Shard
from ..core.partition import Partition
from ..core.topic_names import GROUP_OFFSETS_TOPIC
from ..net.call import Call
from ..node import Node
from ..rights.rights import Rights, split
from ..transactions.verifier import NotVerified
from . import Answer
from .partly import completed
from .verification import Verdict, check_guarded, verification

ABORTABLE_VERSION_FIRST: Final = 4
ADDING_VERSION_FIRST: Final = 5
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

    def commit() -> Message | Awaitable[Message]:
        return node.groups.ask(
            Shard.commit_offsets_in_transaction, request.group_id, request, call, refused
        )

    producer = Producer(request.producer_id, request.producer_epoch)
    partition = _partition_of(request.group_id, node)
    if partition is None:
        return commit()
    abortable = call.version >= ABORTABLE_VERSION_FIRST
    try:
        asked = verification(
            request.transactional_id,
            producer,
            partition,
            node,
            abortable=abortable,
            adds=call.version >= ADDING_VERSION_FIRST,
        )
    except NotVerified as refusal:
        return refused(_code_of(refusal))
    return (
        commit() if asked is None else _when_verified(asked, producer, partition, commit, refused)
    )


def guarded(request: TxnOffsetCommitRequest, call: Call, node: Node, rights: Rights) -> Answer:
    """Commit for the topics that the client may read."""
    request.topics, refused = split(
        request.topics, lambda topic: rights.topic(Operation.READ, topic.name)
    )
    answer = handle(request, call, node)
    if not refused:
        return answer
    others = refuse(
        TxnOffsetCommitRequest(topics=refused), call.version, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )

    def complete(response: TxnOffsetCommitResponse) -> None:
        response.topics += others.topics

    return completed(answer, complete)


def refuse(
    request: TxnOffsetCommitRequest, version: int, code: ErrorCode
) -> TxnOffsetCommitResponse:
    """Refuse every partition, whether it exists or not."""
    asked = [key for key, _ in commits_in(request)]
    return txn_commit_answer(asked, dict.fromkeys(asked, code))


async def _when_verified(
    asked: Verdict,
    producer: Producer,
    partition: Partition,
    commit: Callable[[], Message | Awaitable[Message]],
    refused: Callable[[ErrorCode], Message],
) -> Message:
    guards = partition.verification_guards
    guard = guards.begin(producer.producer_id)
    try:
        try:
            await asked
        finally:  # the client may hang up
            is_guarded = guards.end(guard)
        check_guarded(is_guarded, producer, partition)
    except (Refused, ProducerError) as refusal:
        return refused(_code_of(refusal))
    answer = commit()
    return await answer if isinstance(answer, Awaitable) else answer


def _code_of(refusal: Refused | ProducerError) -> ErrorCode:
    """The coordinator's own code, if producers know it here; or that of the partition."""
    if not isinstance(refusal, NotVerified):
        return refusal.code
    if refusal.answer in (ErrorCode.NETWORK_EXCEPTION, ErrorCode.OPERATION_NOT_ATTEMPTED):
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return refusal.answer if refusal.code is ErrorCode.NOT_ENOUGH_REPLICAS else refusal.code


def _partition_of(group_id: str, node: Node) -> Partition | None:
    """The group's partition of `__consumer_offsets`, if this broker leads it."""
    number = node.groups.topic.partition_of(group_id)
    if number is None:
        return None
    partition = node.replicas.partitions.get((GROUP_OFFSETS_TOPIC, number))
    return partition if partition is not None and partition.is_leader else None
