"""One replica on this broker, leader or follower: its log, its waiters, its pending flush.

With `flush.messages`, an append that brings the number of records that are not durable to that many
is *due*: nothing is answered from there on, and the high watermark does not move, until an fsync
has passed it.
"""

from collections.abc import Callable
from typing import Final, Self

from odradek.protocol.primitives import INT64_MAX
from odradek.storage.log.following import Appended
from odradek.storage.log.log import Log
from odradek.storage.log.staging import Staged

from ..settings.topic_config import TopicConfig
from .partition_state import PartitionState
from .waiters import Waiters

FETCHED_BATCHES_AT_ONCE: Final = 32  # some tenths of a millisecond
FETCHED_BYTES_AT_ONCE: Final = 1 << 18


class Replica:
    """What a leader and a follower have in common; only ever made as a `Partition`."""

    __slots__ = (
        "_begin_flush",
        "_due_in",
        "config",
        "end_waiters",
        "flush_due",
        "flushed_ms",
        "log",
        "state",
        "waiters",
    )
    _begin_flush: Callable[[Self], None]

    def __init__(
        self,
        log: Log,
        config: TopicConfig,
        state: PartitionState,
        begin_flush: Callable[[Self], None],
    ) -> None:
        """`begin_flush` is called when an append is due; it must lead to a call of `flushed`."""
        self.log = log
        self.configure(config)
        self.state = state
        self.waiters = Waiters()
        """Called when the high watermark has moved, or the partition's role has changed."""
        self.end_waiters = Waiters()
        """Called when the log end has moved, or the partition's role has changed."""
        self.flush_due = 0
        """The offset up to which the log must be durable before anything more is answered."""
        self._due_in = log, log.generation
        self.flushed_ms = 0
        """When the last flush ended."""
        self._begin_flush = begin_flush

    def configure(self, config: TopicConfig) -> None:
        """Use these settings from now on."""
        self.config = config
        self.log.config = config.log_config

    def go_on_in(self, copy: Log) -> None:
        """Switch to a copy of the log; the copy takes over the log's pending flush."""
        if self.awaits_flush:
            self._due_in = copy, copy.generation
        self.log = copy
        self.configure(self.config)

    # Following.

    def append_fetched(
        self, batches: memoryview, *, wall_ms: int, gaps_before: int = INT64_MAX
    ) -> Appended:
        """Append part of what the leader sent, byte for byte; nothing later than its leader epoch.

        Raises: CorruptLog, MalformedMessage, DiskFull, LogDirFailed.
        """
        try:
            return self.log.append_as_follower(
                batches,
                wall_ms=wall_ms,
                batches_max=FETCHED_BATCHES_AT_ONCE,
                bytes_max=FETCHED_BYTES_AT_ONCE,
                epoch_max=self.state.leader_epoch,
                gaps_before=gaps_before,
            )
        finally:
            self._note_fetched()  # the batches before a bad one are kept

    def stage_fetched(self, batches: memoryview) -> Staged | None:
        """Stage a large answer for a thread to write; None: it is small.  Raises: LogDirFailed."""
        return self.log.stage(batches, epoch_max=self.state.leader_epoch)

    def append_staged(self, staged: Staged, *, wall_ms: int) -> Appended:
        """Append what was staged; raises the same as `append_fetched`."""
        try:
            return self.log.append_staged(staged, wall_ms=wall_ms)
        finally:
            self._note_fetched()

    def _note_fetched(self) -> None:
        log = self.log
        if log.log_end_offset - log.flushing.recovery_point >= self.config.flush_messages:
            self._note_due()

    def take_offsets(self, high_watermark: int, log_start_offset: int) -> None:
        """Take the leader's high watermark and log start, as far as the own log reaches."""
        log = self.log
        readable_end = log.high_watermark
        log.high_watermark = high_watermark
        if log.high_watermark != readable_end and self.waiters:
            self.waiters.wake()
        if log_start_offset > log.log_start_offset:
            log.advance_log_start(min(log_start_offset, log.high_watermark))

    # Flushes.

    @property
    def awaits_flush(self) -> bool:
        """Whether an append is due, unless the log has been cut since."""
        log = self.log
        if self.flush_due <= log.recovery_point:
            return False
        due_in, generation = self._due_in
        return due_in is log and generation == log.generation

    # Waiting.

    def wake(self) -> None:
        """Wake the waiters."""
        self.waiters.wake()
        self.end_waiters.wake()

    def _note_due(self: Self) -> None:
        """Mark an append as due if too many records are not durable, except those being flushed."""
        log = self.log
        flush_end = self.flush_due if self.awaits_flush else log.recovery_point
        if log.log_end_offset - flush_end >= self.config.flush_messages:
            self.flush_due = log.log_end_offset
            self._due_in = log, log.generation
            self._begin_flush(self)
