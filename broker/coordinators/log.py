"""The log of a coordinator: records are appended, and later known to be committed.

With one replica, an append is committed at once. With followers, it is committed once the high
watermark has passed it, as in a Produce with acks=all. If leadership is lost first, the waiting
callbacks are told so.
"""

import asyncio
import logging
import math
import struct
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import Record, build_batch, read_header
from odradek.storage.errors import ProducerError, StorageError

from ..core.effects import Producer
from ..core.partition import Partition
from ..core.storage_errors import code_of
from ..runtime import Clock
from .codec import RecordCodec, RecordT

logger = logging.getLogger(__name__)

Then = Callable[[ErrorCode], None]


class _Waiting(NamedTuple):
    """An append that the high watermark has not passed yet."""

    offset_end: int
    deadline_ms: float
    then: Then


class CoordinatorLog(Generic[RecordT]):
    """Appends records to a partition of an internal topic that this broker leads."""

    def __init__(
        self,
        partition: Partition,
        codec: RecordCodec[RecordT],
        clock: Clock,
        *,
        commit_timeout_ms: int | None,
        note_failure: Callable[[StorageError], None],
    ) -> None:
        """`commit_timeout_ms`: None waits as long as this broker leads."""
        self.partition = partition
        self.codec = codec
        self._clock = clock
        self._commit_timeout_ms = commit_timeout_ms
        self._note_failure = note_failure
        self._waiting: deque[_Waiting] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def append(
        self,
        records: Sequence[RecordT],
        then: Then,
        appended: Callable[[], None] | None = None,
        producer: Producer | None = None,
    ) -> None:
        """Append one batch; `then` gets the result, at once or later.

        `appended` is called as soon as the log has taken it.  With a `producer` the batch belongs
        to its transaction, which is open in the log from then on.
        """
        if not records:  # nothing to append, so it is committed already
            if appended is not None:
                appended()
            then(ErrorCode.NONE)
            return
        try:
            offset_end = self._append(records, producer)
        except (Refused, ProducerError) as refused:
            logger.warning("records refused log=%r reason=%s", self.partition.log, refused)
            then(refused.code)
            return
        except StorageError as error:
            self._note_failure(error)
            then(code_of(error))
            return
        if appended is not None:
            appended()
        self._wait(offset_end, then)

    async def committed(self) -> None:
        """Return once all that is in the log is committed, or another broker leads."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def then(code: ErrorCode) -> None:
            if not done.done():  # otherwise nobody waits any more
                done.set_result(None)

        self._wait(self.partition.log.log_end_offset, then)
        await done

    def _wait(self, offset_end: int, then: Then) -> None:
        if self.partition.log.high_watermark >= offset_end and not self._waiting:
            then(ErrorCode.NONE)
            return
        timeout_ms = self._commit_timeout_ms
        deadline_ms = math.inf if timeout_ms is None else self._clock.now_ms() + timeout_ms
        self._waiting.append(_Waiting(offset_end, deadline_ms, then))
        self.partition.waiters.add(self._on_progress)
        self._set_timer()

    def close(self) -> None:
        """Tell the waiting callbacks that this broker no longer leads."""
        while self._waiting:
            self._waiting.popleft().then(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        self._stop_waiting()

    def abandon(self) -> None:
        """Forget the waiting callbacks, which may append, because the log will be closed."""
        self._waiting.clear()
        self._stop_waiting()

    def _append(self, records: Sequence[RecordT], producer: Producer | None) -> int:
        """Return the offset after the batch.  Raises: Refused, StorageError."""
        partition = self.partition
        partition.check_leader()
        partition.check_enough_replicas()
        if producer is not None:
            partition.log.producers.check_epoch(*producer)
        wall_ms, encode = self._clock.wall_ms(), self.codec.encode
        try:
            kept = [Record(i, wall_ms, *encode(record)) for i, record in enumerate(records)]
        except struct.error as error:  # an epoch out of range, or a string too long to be written
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
        batch = memoryview(_build(kept, producer))
        if len(batch) > partition.config.max_message_bytes:
            raise Refused(
                ErrorCode.MESSAGE_TOO_LARGE,
                f"{len(batch)} bytes, max.message.bytes={partition.config.max_message_bytes}",
            )
        base_offset = partition.append(batch, read_header(batch), wall_ms=wall_ms)
        return base_offset + len(kept)

    def _on_progress(self) -> None:
        if not self.partition.is_leader:
            self.close()
            return
        kept = self.partition.log
        # A callback may also append, and so move the high watermark.
        while self._waiting and self._waiting[0].offset_end <= kept.high_watermark:
            enough = self.partition.has_enough_replicas
            code = ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
            self._waiting.popleft().then(code)
        if not self._waiting:
            self._stop_waiting()

    def _set_timer(self) -> None:
        deadline_ms = self._waiting[0].deadline_ms if self._waiting else math.inf
        if self._timer is None and deadline_ms < math.inf:
            wait_ms = deadline_ms - self._clock.now_ms()
            self._timer = asyncio.get_running_loop().call_later(
                max(0, wait_ms) / 1000, self._on_timer
            )

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self._clock.now_ms()
        while self._waiting and self._waiting[0].deadline_ms <= now_ms:
            self._waiting.popleft().then(ErrorCode.REQUEST_TIMED_OUT)
        self._set_timer()
        if not self._waiting:
            self._stop_waiting()

    def _stop_waiting(self) -> None:
        self.partition.waiters.discard(self._on_progress)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _build(records: Sequence[Record], producer: Producer | None) -> bytearray:
    if producer is None:
        return build_batch(records)
    return build_batch(
        records,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=0,  # of every batch, as in Kafka: a coordinator's sequences are not checked
        is_transactional=True,
    )
