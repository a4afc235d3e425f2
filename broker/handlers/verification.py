"""Checks with the coordinator that a partition is in a transaction (KIP-890).

A batch that comes when its producer has no open transaction in the partition would begin one. If
the coordinator does not know of it, nobody would end it. So the coordinator is asked whether the
partition was added (part 1), or has to add it (part 2: Produce 12, TxnOffsetCommit 5).
"""

import asyncio
from collections.abc import Awaitable
from typing import Final

from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.errors import ProducerError

from ..core.effects import Producer
from ..core.partition import Partition
from ..node import Node
from ..transactions.verifier import NotVerified, Question, check_answer

ADD_WAIT_MS: Final = 100
ADD_PAUSE_S: Final = 0.02

Verdict = Awaitable[None]
"""Returns if the batch may be appended; raises NotVerified otherwise."""


def verification(
    transactional_id: str,
    producer: Producer,
    partition: Partition,
    node: Node,
    *,
    abortable: bool,
    adds: bool,
    sequence: int | None = None,
) -> Verdict | None:
    """What a transactional batch must wait for; None: it may be appended now.

    `abortable`: whether the version of the request has TRANSACTION_ABORTABLE.  `adds`: whether the
    request adds the partition.  `sequence`: the batch's first one; later batches must wait for it.
    Raises: NotVerified.
    """
    is_enabled = adds or node.config.transaction_partition_verification_enable
    if not is_enabled or partition.log.producers.is_in_transaction(*producer):
        return None
    try:
        partition.log.producers.check_epoch(*producer)
    except ProducerError as error:
        raise NotVerified(error.code, error.code, str(error)) from None
    if sequence is not None:
        partition.verification_guards.asked(producer, sequence)
    key = partition.state.topic, partition.state.partition
    question = Question(transactional_id, producer, key, adds)
    if adds:
        return _added(question, node, partition, sequence)
    answer = node.verifier.ask(question)
    if isinstance(answer, ErrorCode):
        check_answer(answer, knows_abortable=abortable)
        return None
    return _verdict(answer, abortable=abortable)


async def _added(
    question: Question, node: Node, partition: Partition, sequence: int | None
) -> None:
    """Have a partition added; while the markers of the transaction before are missing, wait a bit.

    A producer of version 2 begins each transaction, and so each partition, with sequence 0.
    Source: add.partitions.to.txn.retry.backoff.ms and ProducerAppendInfo of Kafka 4.3.
    Raises: NotVerified, Refused (OUT_OF_ORDER_SEQUENCE_NUMBER).
    """
    begun_ms = node.clock.now_ms()
    while True:
        answer = node.verifier.ask(question)
        code = answer if isinstance(answer, ErrorCode) else await answer
        is_late = node.clock.now_ms() - begun_ms >= ADD_WAIT_MS
        if code is not ErrorCode.CONCURRENT_TRANSACTIONS or is_late:
            break
        await asyncio.sleep(ADD_PAUSE_S)
    check_answer(code, knows_abortable=True, adds=True)
    entry = partition.log.producers.entry(question.producer.producer_id)
    if sequence and (entry is None or not entry.batches):
        raise Refused(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {question.producer.producer_id}: sequence {sequence} came first",
        )


async def _verdict(answer: Awaitable[ErrorCode], *, abortable: bool) -> None:
    check_answer(await answer, knows_abortable=abortable)


def check_guarded(is_guarded: bool, producer: Producer, partition: Partition) -> None:
    """Check that the transaction of a batch that has waited is not over.

    `is_guarded`: no marker has come meanwhile.  The epoch comes first, as producers recover from a
    fenced one, and not from INVALID_TXN_STATE (KAFKA-19690).
    Raises: ProducerError (INVALID_PRODUCER_EPOCH), Refused (INVALID_TXN_STATE).
    """
    partition.log.producers.check_epoch(*producer)
    if not is_guarded and not partition.log.producers.is_in_transaction(*producer):
        raise Refused(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")
