"""A delayed Produce: it is answered once the appended records are durable or replicated.

With acks=1 it waits until the due flush has made them durable, with acks=all until the high
watermark has passed them. Each partition is checked whenever it has news. As in Kafka's
DelayedProduce, a partition gets an error beside its offset if it is no longer led here, if its ISR
has become too small, or if it takes longer than the request allows. The records stay in the log.

An idempotent producer that learns late of a new leader may already have sent further batches there.
The new leader accepts them, because it has replicated the earlier ones. After more batches than a
leader remembers of a producer, batches that are sent again are out of order, permanently. An answer
can be late because it waits for other partitions, or for the answer to an earlier request. (In
Kafka only for other partitions: it reads no request before it has answered the previous one.) The
broker therefore disconnects such a client, which then sends all unanswered batches again, in order.
Other producers are not disconnected: batches that they send again are in the log twice.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message

from ..net.eager_future import EagerFuture, SettledAnswers

if TYPE_CHECKING:
    from ..core.partition import Partition

ResponseT = TypeVar("ResponseT", bound=Message)


class Result(Protocol):
    """What is answered for one partition."""

    error_code: int


Lost = Callable[["Partition", Any], None]

LATE_S: Final = 0.02
"""How late an answer about a new leader may be: long enough for a controller's request about some
hundred partitions, and short enough that a producer sends only a few batches."""


class Appended:
    """An append to one partition, with its result, which is valid once it may be answered."""

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
        result: Result,
        *,
        is_idempotent: bool,
    ) -> None:
        self.partition = partition
        self.is_idempotent = is_idempotent
        self._offset_end = offset_end
        self._flush_due = partition.flush_due if partition.awaits_flush else 0
        self.result = result

    def may_be_answered(self, *, acks_all: bool) -> bool:
        """Whether the append is durable or, with `acks_all`, replicated."""
        log = self.partition.log
        if acks_all:
            return log.high_watermark >= self._offset_end
        return log.recovery_point >= self._flush_due

    def begin(self, produce: "DelayedProduce[Any]") -> None:
        """Check again whenever the partition has news."""
        self._produce = produce
        self.partition.waiters.add(self.look)

    def look(self) -> None:
        """Settle the result if it can be answered, or if the partition is no longer led here."""
        if not self.partition.is_leader:
            self._produce.lose(self)
        elif not self.may_be_answered(acks_all=self._produce.acks_all):
            return
        elif self._produce.acks_all and not self.partition.has_enough_replicas:
            self.result.error_code = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        self.end()
        self._produce.settled(self)

    def time_out(self) -> None:
        """Set the error REQUEST_TIMED_OUT."""
        self.result.error_code = ErrorCode.REQUEST_TIMED_OUT

    def end(self) -> None:
        """Stop checking."""
        self.partition.waiters.discard(self.look)


class DelayedProduce(EagerFuture[ResponseT], Generic[ResponseT]):
    """The future answer to one Produce or WriteTxnMarkers.  Cancel it to stop waiting."""

    def __init__(
        self,
        response: ResponseT,
        pending: Sequence[Appended],
        settled: SettledAnswers,
        *,
        acks_all: bool,
        timeout_ms: int,
        lost: Lost,
    ) -> None:
        """`lost` sets in a result why its partition is no longer led here."""
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
        """Set the error of a partition that is no longer led here."""
        self._lost(appended.partition, appended.result)
        is_elsewhere = appended.result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        if is_elsewhere and appended.is_idempotent and self._hurry is None:
            self._hurry = self.get_loop().call_later(LATE_S, self._on_late)

    def settled(self, appended: Appended) -> None:
        """Note that one partition's result is known; answer after the last one."""
        del self._pending[appended]
        if not self._pending:
            self._end()
            self._answers.add(self, self._response)

    def cancel(self, msg: object = None) -> bool:
        """Stop waiting."""
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
