"""What is asked of the transaction coordinator, whatever the API and its version."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from ..effects import Producer
from ..partition_state import TopicPartition

Respond = Callable[[ErrorCode], Message]
"""Creates the response."""


class InitProducer(NamedTuple):
    """InitProducerId with a transactional id."""

    transactional_id: str
    timeout_ms: int
    claimed: Producer | None
    """The producer that the client was before, if it says so (KIP-360)."""
    new_producer_id: int | None
    """A producer id that was never used, if `TransactionShard.needs_producer_id`."""
    respond: Callable[[ErrorCode, Producer], Message]


class AddPartitions(NamedTuple):
    """AddPartitionsToTxn or AddOffsetsToTxn, of one transaction."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    respond: Respond


class EndTransaction(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer: Producer
    commits: bool
    respond: Respond


class Filters(NamedTuple):
    """The filters of ListTransactions."""

    states: frozenset[str] | None
    """By Kafka's names; None: all."""
    producer_ids: frozenset[int] | None
    duration_ms: int
    """Only transactions that began longer ago; negative: all."""
