"""Transactions that have been open for so long that perhaps nobody will end them.

Readers of committed records wait for them. A coordinator that knows of such a transaction aborts it
after its timeout. Another one, as in a directory whose `__transaction_state` was lost, stays open
until an operator ends it.
"""

from collections.abc import Iterable

from ..core.partition import Partition


def with_old_transactions(partitions: Iterable[Partition], before_ms: int) -> list[str]:
    """The partitions with an open transaction to which nothing was written since `before_ms`."""
    return [
        f"{partition.state.topic}-{partition.state.partition}"
        for partition in partitions
        if _has_old(partition, before_ms)
    ]


def _has_old(partition: Partition, before_ms: int) -> bool:
    producers = partition.log.producers
    return producers.transactions.first_open_offset() is not None and any(
        entry.transaction_first_offset >= 0 and entry.last_timestamp < before_ms
        for entry in producers.entries()
    )
