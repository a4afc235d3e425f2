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
    client_version: int = 0
    """The version of transactions that the client speaks; 2: its Produce has added them."""


class EndTransaction(NamedTuple):
    """EndTxn."""

    transactional_id: str
    producer: Producer
    commits: bool
    respond: Callable[[ErrorCode, Producer], Message]
    """With the id and epoch with which the producer goes on."""
    client_version: int = 0
    """The version of transactions that the client speaks."""
    new_producer_id: int | None = None
    """A producer id that was never used, if `TransactionShard.needs_producer_id_to_end`."""


class Filters(NamedTuple):
    """The filters of ListTransactions."""

    states: frozenset[str] | None
    """By Kafka's names; None: all."""
    producer_ids: frozenset[int] | None
    duration_ms: int
    """Only transactions that began longer ago; negative: all."""
    names: Callable[[str], bool] | None = None
    """Which transactional ids; None: all."""
