"""A Produce with batches that must wait before they are appended.

A thread compresses them first, or the coordinator of their transaction is asked. Such a batch is
copied, as the receive buffer is reused. The connection handles nothing else until the Produce is
answered (`net/dispatcher.py`), so that no later batch of it comes first in the log. If the
connection closes meanwhile, the batches are appended nevertheless, as in Kafka.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from odradek.protocol.errors import Refused
from odradek.protocol.messages.k00_produce import PartitionProduceResponse
from odradek.protocol.records import BatchHeader

from ..core.partition import Partition

Ready = tuple[memoryview, BatchHeader]
"""A checked batch, to be appended as it is, and its header."""


class WaitingBatch:
    """A batch that must wait, for one partition.

    `prepare` starts what it waits for, and returns the batch; it may raise Refused.
    """

    __slots__ = (
        "_guard",
        "_partition",
        "_place",
        "_results",
        "header",
        "index",
        "prepare",
        "size_bytes",
        "topic",
    )

    def __init__(
        self, partition: Partition, header: BatchHeader, prepare: Callable[[], Awaitable[Ready]]
    ) -> None:
        self.topic = partition.state.topic
        self.index = partition.state.partition
        self.header = header
        self.size_bytes = header.size_bytes
        self.prepare = prepare
        self._partition = partition
        guards = partition.verification_guards
        self._guard = guards.begin(header.producer_id) if header.is_transactional else None

    def ends_guarded(self) -> bool:
        """End the wait; whether a transaction that the batch belongs to has not ended meanwhile."""
        guards = self._partition.verification_guards
        return self._guard is None or guards.end(self._guard)

    def reserve(self, results: list[PartitionProduceResponse]) -> None:
        """Take the next place among the results of its topic."""
        self._results, self._place = results, len(results)
        results.append(PartitionProduceResponse(index=self.index))

    def settle(self, result: PartitionProduceResponse) -> None:
        """Put the result in its place."""
        self._results[self._place] = result


async def append_when_ready(
    waiting: Sequence[WaitingBatch],
    append: Callable[[WaitingBatch, Ready | Refused], PartitionProduceResponse],
) -> None:
    """Append the batches in their order, once the last one is ready.

    While they waited, the partitions may have got another leader or other settings: `append` must
    look again.
    """
    found = await asyncio.gather(*map(_prepared, waiting))
    for batch, ready in zip(waiting, found, strict=True):
        batch.settle(append(batch, ready))


async def _prepared(batch: WaitingBatch) -> Ready | Refused:
    try:
        return await batch.prepare()
    except Refused as refused:
        return refused
