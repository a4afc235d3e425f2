"""A Produce that is answered once what it appended is replicated, or durable.

With acks=1 that is when what is due has been made durable, with acks=all when the high watermark
has passed it. Each of its partitions is looked at whenever that one has news. Kafka's
DelayedProduce: a partition that is lost meanwhile, or whose in-sync set has become too small, or
that takes longer than the request allows, is answered with an error beside its offset; the records
are in the log all the same.

An idempotent producer that hears late of another leader may have gone on there: as its records were
copied, too, those that follow are taken. Once they are more than a leader remembers of a producer,
what is sent again is out of order, for good. And an answer can be late, because it waits for other
partitions or behind an earlier one. (In Kafka only for other partitions: it does not take a request
before it has answered the one before.) So such a client is hung up on: it sends all that was not
answered again, in order. Others are not: what they send again is in the log twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import PartitionProduceResponse, ProduceResponse

from ..net.eager_future import EagerFuture, SettledAnswers

if TYPE_CHECKING:
    from ..core.partition import Partition

Lost = Callable[["Partition", PartitionProduceResponse], None]

LATE_S: Final = 0.02
"""So long an answer may be owed that tells of another leader: as long as it takes a controller's
request to tell of some hundred partitions, and a producer to send a few batches."""


class Appended:
    """What was appended to one partition, and its result, which holds once it may be answered."""

    __slots__ = (
        "_flush_due",
        "_offset_end",
        "_produce",
        "is_idempotent",
        "partition",
        "result",
    )

    def __init__(
        self,
        partition: "Partition",
        offset_end: int,
        result: PartitionProduceResponse,
        *,
        is_idempotent: bool,
    ) -> None:
        self.partition = partition
        self.is_idempotent = is_idempotent
        self._offset_end = offset_end
        self._flush_due = partition.flush_due if partition.awaits_flush else 0
        self.result = result

    def may_be_answered(self, *, acks_all: bool) -> bool:
        """Whether it can be answered."""
        log = self.partition.log
        if acks_all:
            return log.high_watermark >= self._offset_end
        return log.recovery_point >= self._flush_due

    def begin(self, produce: "DelayedProduce") -> None:
        """Look at every news of the partition."""
        self._produce = produce
        self.partition.waiters.add(self.look)

    def look(self) -> None:
        """See whether the partition can be answered, or is not led any more."""
        if not self.partition.is_leader:
            self._produce.lose(self)
        elif not self.may_be_answered(acks_all=self._produce.acks_all):
            return
        elif self._produce.acks_all and not self.partition.has_enough_replicas:
            self.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.end()
        self._produce.settled(self)

    def time_out(self) -> None:
        """It takes too long."""
        self.result.error_code = ErrorCode.REQUEST_TIMED_OUT

    def end(self) -> None:
        """Look no more."""
        self.partition.waiters.discard(self.look)


class DelayedProduce(EagerFuture[ProduceResponse]):
    """The answer to one Produce; cancelled by who does not want it any more."""

    def __init__(
        self,
        response: ProduceResponse,
        pending: Sequence[Appended],
        settled: SettledAnswers,
        *,
        acks_all: bool,
        timeout_ms: int,
        lost: Lost,
    ) -> None:
        """`lost` writes into a result why its partition is not led any more."""
        loop = asyncio.get_running_loop()
        super().__init__(loop=loop)
        self.acks_all = acks_all
        self._lost = lost
        self._hurry: asyncio.TimerHandle | None = None
        self._response = response
        self._pending = dict.fromkeys(pending)
        self._answers = settled
        self._timer: asyncio.TimerHandle | None = None
        if acks_all:
            self._timer = loop.call_later(max(0, timeout_ms) / 1000, self._on_timeout)
        for appended in pending:
            appended.begin(self)

    def lose(self, appended: Appended) -> None:
        """A partition is not led here any more."""
        self._lost(appended.partition, appended.result)
        is_elsewhere = appended.result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_elsewhere and appended.is_idempotent and self._hurry is None:
            self._hurry = self.get_loop().call_later(LATE_S, self._on_late)

    def settled(self, appended: Appended) -> None:
        """One partition's result is known; with the last one all is."""
        del self._pending[appended]
        if not self._pending:
            self._end()
            self._answers.add(self, self._response)

    def cancel(self, msg: object = None) -> bool:
        """Nobody wants it any more."""
        if self._hurry is not None:
            self._hurry.cancel()
        self._end()
        return super().cancel(msg)

    def _on_late(self) -> None:
        if self.on_late is not None:
            self.on_late(self)

    def _on_timeout(self) -> None:
        for appended in self._pending:
            appended.time_out()
        self._end()
        self.finish(self._response)

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for appended in self._pending:
            appended.end()
