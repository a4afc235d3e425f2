"""Checks with the coordinator that a partition is in a transaction (KIP-890, part 1).

A batch that comes when its producer has no open transaction in the partition would begin one. If
the coordinator does not know of it, nobody would end it.
"""

from collections.abc import Awaitable

from odradek.protocol.errors import ErrorCode, Refused

from ..core.effects import Producer
from ..core.partition import Partition
from ..node import Node
from ..transactions.verifier import Question, refusal

Verdict = Awaitable[None]
"""Returns if the batch may be appended; raises NotVerified otherwise."""


def verification(
    transactional_id: str,
    producer: Producer,
    partition: Partition,
    node: Node,
    *,
    abortable: bool,
    sequence: int | None = None,
) -> Verdict | None:
    """What a transactional batch must wait for; None: it may be appended now.

    `abortable`: whether the version of the request has TRANSACTION_ABORTABLE.  `sequence`: the
    batch's first one; later batches must wait for it.  Raises: NotVerified.
    """
    is_enabled = node.config.transaction_partition_verification_enable
    if not is_enabled or partition.log.producers.is_in_transaction(*producer):
        return None
    if sequence is not None:
        partition.verification_guards.asked(producer, sequence)
    key = partition.state.topic, partition.state.partition
    answer = node.verifier.ask(Question(transactional_id, producer, key))
    if isinstance(answer, ErrorCode):
        _check(answer, abortable=abortable)
        return None
    return _verdict(answer, abortable=abortable)


async def _verdict(answer: Awaitable[ErrorCode], *, abortable: bool) -> None:
    _check(await answer, abortable=abortable)


def _check(code: ErrorCode, *, abortable: bool) -> None:
    refused = refusal(code, knows_abortable=abortable)
    if refused is not None:
        raise refused


def check_guarded(is_guarded: bool, producer: Producer, partition: Partition) -> None:
    """Check that the transaction of a batch that has waited is not over.

    `is_guarded`: no marker has come meanwhile.  Raises: Refused (INVALID_TXN_STATE).
    """
    if not is_guarded and not partition.log.producers.is_in_transaction(*producer):
        raise Refused(ErrorCode.INVALID_TXN_STATE, "the transaction has ended meanwhile")
