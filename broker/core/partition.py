"""One partition on this broker, as its leader sees it.

The log holds the records; here is what leadership adds: who may append and read, how far consumers
may read (the high watermark, the smallest log end over the in-sync replicas), and who is waiting
for more. Nothing here waits: a waiter leaves a callback.

With `flush.messages` an append that brings so many records that are not durable is *due*: nothing
is answered from there on, and the high watermark stays, until an fsync has passed it.
"""

from collections.abc import Callable

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import BatchHeader
from odradek.storage.log import Log
from odradek.storage.span import Span

from ..settings.topic_config import TopicConfig
from .partition_state import PartitionState

Waiter = Callable[[], None]


class Partition:
    """A replica on this broker."""

    __slots__ = (
        "_alone",
        "_begin_flush",
        "_due_in",
        "config",
        "flush_due",
        "flushed_ms",
        "is_leader",
        "log",
        "node_id",
        "state",
        "waiters",
    )

    def __init__(
        self,
        log: Log,
        config: TopicConfig,
        state: PartitionState,
        node_id: int,
        begin_flush: Callable[["Partition"], None],
    ) -> None:
        """`begin_flush` is called when an append is due; `flushed` is what it must come to."""
        self.log = log
        self.configure(config)
        self.node_id = node_id
        self._alone = (node_id,)
        self.waiters: set[Waiter] = set()
        self.flush_due = 0
        """Up to this offset the log has to be durable before anything more is answered."""
        self._due_in = log, log.generation
        self.flushed_ms = 0
        """When the last flush ended."""
        self._begin_flush = begin_flush
        self.is_leader = False
        self.state = state
        self.become(state)

    def configure(self, config: TopicConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        self.log.config = config.log_config

    def become(self, state: PartitionState) -> None:
        """Take the controller's decision; an older leader epoch is ignored."""
        if state.leader_epoch < self.state.leader_epoch:
            return
        self.state = state
        self.is_leader = state.leader == self.node_id
        if self.is_leader:
            self.log.assign_leader_epoch(state.leader_epoch)
            self._advance_high_watermark()
        self.wake()

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Let a client pass that knows this leader epoch, or none (-1).

        Raises: Refused (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
        """
        if current_leader_epoch not in (-1, self.state.leader_epoch):
            older = current_leader_epoch < self.state.leader_epoch
            raise Refused(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH, None
            )
        if not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def append(self, batch: memoryview, header: BatchHeader, *, wall_ms: int) -> int:
        """Append a batch that has been checked; return its base offset.

        It is kept once the high watermark has passed it: at once, or not.
        Raises: DiskFull, LogDirFailed.
        """
        log = self.log
        base_offset = log.append(
            batch, header, leader_epoch=self.state.leader_epoch, wall_ms=wall_ms
        )
        if log.log_end_offset - log.flushing.recovery_point >= self.config.flush_messages:
            self._note_due()
        self._advance_high_watermark()
        return base_offset

    @property
    def awaits_flush(self) -> bool:
        """Whether an append is due, unless the log was cut since; its copy owes the same."""
        log = self.log
        if self.flush_due <= log.recovery_point:
            return False
        due_in, generation = self._due_in
        return due_in is not log or generation == log.generation

    def flushed(self, now_ms: int) -> None:
        """A flush of the log has ended."""
        self.flushed_ms = now_ms
        if self.is_leader:
            self._advance_high_watermark()

    def read(
        self, offset: int, *, size_bytes_max: int, offset_end: int, at_least_one: bool
    ) -> Span | None:
        """Whole batches from `offset` up to `offset_end` (exclusive).  Raises: OffsetOutOfRange."""
        return self.log.read(
            offset, size_bytes_max=size_bytes_max, offset_end=offset_end, at_least_one=at_least_one
        )

    def wake(self) -> None:
        """Something that a waiter may wait for has happened."""
        for waiter in list(self.waiters):
            # One that was told may append, and so wake the others, who then may wait no longer.
            if waiter in self.waiters:
                waiter()

    def _note_due(self) -> None:
        """So many records are not durable; those that a flush is under way for do not count."""
        log = self.log
        flush_end = self.flush_due if self.awaits_flush else log.recovery_point
        if log.log_end_offset - flush_end >= self.config.flush_messages:
            self.flush_due = log.log_end_offset
            self._due_in = log, log.generation
            self._begin_flush(self)

    def _advance_high_watermark(self) -> None:
        # With followers this is the minimum over their log ends; a leader that is alone in the
        # in-sync set has committed what it has written, and made durable if that is due.
        if self.state.isr == self._alone:
            log = self.log
            offset = log.log_end_offset
            if self.flush_due > log.flushing.recovery_point and self.awaits_flush:
                offset = log.recovery_point
            if offset > log.high_watermark:
                log.high_watermark = offset
                if self.waiters:
                    self.wake()
