"""Checks with the coordinator that a partition is in a transaction (KIP-890, part 1).

A batch that comes when its producer has no open transaction in the partition would begin one. If
the coordinator does not know of it, nobody would end it.
"""

from collections.abc import Awaitable
from typing import Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.records import BatchHeader

from ..core.effects import Producer
from ..core.partition import Partition
from ..node import Node
from ..transactions.verifier import Question, refusal

ABORTABLE_VERSION_FIRST: Final = 11  # of Produce

Verdict = Awaitable[None]
"""Returns if the batch may be appended; raises Refused otherwise."""


def verification(
    transactional_id: str | None,
    version: int,
    partition: Partition,
    header: BatchHeader,
    node: Node,
) -> Verdict | None:
    """What a batch must wait for; None: it may be appended now.  Raises: Refused."""
    if (
        transactional_id is None
        or not header.is_transactional
        or not node.config.transaction_partition_verification_enable
        or partition.log.producers.is_in_transaction(header.producer_id, header.producer_epoch)
    ):
        return None
    producer = Producer(header.producer_id, header.producer_epoch)
    key = partition.state.topic, partition.state.partition
    answer = node.verifier.ask(Question(transactional_id, producer, key))
    knows_abortable = version >= ABORTABLE_VERSION_FIRST
    if isinstance(answer, ErrorCode):
        _check(answer, knows_abortable=knows_abortable)
        return None
    return _verdict(answer, knows_abortable=knows_abortable)


async def _verdict(answer: Awaitable[ErrorCode], *, knows_abortable: bool) -> None:
    _check(await answer, knows_abortable=knows_abortable)


def _check(code: ErrorCode, *, knows_abortable: bool) -> None:
    refused = refusal(code, knows_abortable=knows_abortable)
    if refused is not None:
        raise refused
