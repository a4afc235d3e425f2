"""The markers that end a transaction, as the coordinator wants them sent."""

from dataclasses import dataclass

from ..effects import OwnEffect, Producer
from ..partition_state import TopicPartition


@dataclass(frozen=True, slots=True, eq=False)
class SendMarkers(OwnEffect):
    """Have markers written into these partitions, and report each to `TransactionShard.marked`."""

    transactional_id: str
    producer: Producer
    commits: bool
    partitions: frozenset[TopicPartition]
    client_version: int = 0
    """The version of transactions that the client of the transaction speaks."""
