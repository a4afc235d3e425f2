"""One replica of a partition on this broker: its leader, or a follower of it.

The log holds the records. This module adds leadership: who may append and read, how far consumers
may read (the high watermark), which followers are in sync, and who waits for more. Nothing here
waits: a waiter leaves a callback.

The high watermark is the smallest log end of all replicas that are in sync or about to be. It does
not move while fewer than min.insync.replicas are in sync, and goes back only when the log is cut. A
follower takes it from its leader.

What leaders and followers have in common is in `replica.py`.
"""

from collections.abc import Callable, Container, Sequence
from typing import Self

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import BatchHeader, Marker, control_batch, read_header
from odradek.storage.log.log import Log

from ..settings.topic_config import TopicConfig
from .followers import FetchingReplica, Follower
from .isr import CommittedIsr, Isr, Outcome, PendingExpand, PendingShrink, Proposal, outcome_of
from .partition_state import PartitionState
from .replica import Replica
from .verification_guards import VerificationGuards


class Partition(Replica):
    """A replica on this broker."""

    __slots__ = (
        "epoch_start_offset",
        "followers",
        "has_strangers",
        "in_sync",
        "is_leader",
        "node_id",
        "verification_guards",
    )

    def __init__(
        self,
        log: Log,
        config: TopicConfig,
        state: PartitionState,
        node_id: int,
        begin_flush: Callable[[Self], None],
        *,
        now_ms: int,
    ) -> None:
        """`begin_flush` is called when an append is due; it must lead to a call of `flushed`."""
        super().__init__(log, config, state, begin_flush)
        self.node_id = node_id
        self.is_leader = False
        self.followers: dict[int, Follower] = {}
        """All other replicas, in the order of the assignment; empty unless this one leads."""
        self.in_sync: Isr = CommittedIsr(())
        """The leader's view of the in-sync set; `state.isr` is the committed set."""
        self.has_strangers = False
        """Whether an in-sync broker is no longer a replica, as when a reassignment ends. It may
        still be elected, so the high watermark does not move. In Kafka it does."""
        self.verification_guards = VerificationGuards()
        self.epoch_start_offset = 0
        """The log end when this broker became the leader in this epoch."""
        self._take(state, now_ms, is_new_epoch=True)

    # Leadership.

    def become(self, state: PartitionState, now_ms: int) -> bool:
        """Apply the controller's decision; False: it is older than the known one, and ignored.

        A leader records the start of its epoch even if nothing is written in it.
        Raises: DiskFull, LogDirFailed; then nothing has changed.
        """
        known = self.state
        if state.leader_epoch < known.leader_epoch or state.partition_epoch < known.partition_epoch:
            return False
        self._take(state, now_ms, is_new_epoch=state.leader_epoch > known.leader_epoch)
        return True

    def _take(self, state: PartitionState, now_ms: int, *, is_new_epoch: bool) -> None:
        was_leader, known = self.is_leader, self.state
        if is_new_epoch:
            self.verification_guards.clear()
        leads = state.leader == self.node_id
        begins = leads and (is_new_epoch or not was_leader)
        if begins:
            self.log.assign_leader_epoch(state.leader_epoch)  # may fail, so it comes first
        self.is_leader, self.state = leads, state
        if leads:
            if begins:
                # Another broker may have led in an epoch that this one missed, and followers cut
                # their logs for it. Kafka assumes that they still have what they had.
                has_led_on = was_leader and state.leader_epoch == known.leader_epoch + 1
                self._begin_epoch(now_ms, is_new_leader=not has_led_on)
            self._take_replicas(state.replicas)
            self._commit(state.isr)
            self._advance_high_watermark()
        else:
            self.followers = {}
            self._commit(())
        self.wake()

    def _commit(self, isr: tuple[int, ...]) -> None:
        self.in_sync = CommittedIsr(isr)
        self.has_strangers = not all(r == self.node_id or r in self.followers for r in isr)

    def _begin_epoch(self, now_ms: int, *, is_new_leader: bool) -> None:
        log, state = self.log, self.state
        self.epoch_start_offset = log.log_end_offset
        self._take_replicas(state.replicas)
        for replica, follower in self.followers.items():
            follower.reset(
                now_ms=now_ms,
                leader_end_offset=log.log_end_offset,
                is_new_leader=is_new_leader,
                is_in_sync=replica in state.isr,
            )

    def _take_replicas(self, replicas: Sequence[int]) -> None:
        known = self.followers
        self.followers = {
            replica: known.get(replica) or Follower()
            for replica in replicas
            if replica != self.node_id
        }

    def check_epoch(self, current_leader_epoch: int) -> None:
        """Check that a client knows this leader epoch, or none (-1).

        Raises: Refused (FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
        """
        if current_leader_epoch not in (-1, self.state.leader_epoch):
            older = current_leader_epoch < self.state.leader_epoch
            raise Refused(
                ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH, None
            )

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Check that this broker leads, and the client's epoch as in `check_epoch`.

        Raises: Refused (NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH).
        """
        if current_leader_epoch != -1:
            self.check_epoch(current_leader_epoch)
        if not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # What a leader does.

    def append(self, batch: memoryview, header: BatchHeader, *, wall_ms: int) -> int:
        """Append a batch that has been checked; return its base offset.

        It is committed once the high watermark has passed it: at once, or later.
        Raises: DiskFull, LogDirFailed.
        """
        log = self.log
        base_offset = log.append(
            batch, header, leader_epoch=self.state.leader_epoch, wall_ms=wall_ms
        )
        if log.log_end_offset - log.flushing.recovery_point >= self.config.flush_messages:
            self._note_due()
        self._advance_high_watermark()
        if self.end_waiters:
            self.end_waiters.wake()
        return base_offset

    def append_marker(
        self,
        marker: Marker,
        *,
        producer_id: int,
        producer_epoch: int,
        wall_ms: int,
        transaction_version: int = 0,
    ) -> int:
        """Append a coordinator's marker as the leader; return the offset after it.

        It is committed once the high watermark reaches that offset. A producer that has no open
        transaction here gets its marker, too, as in Kafka.
        Raises: Refused (NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS), ProducerError, BatchTooLarge,
        DiskFull, LogDirFailed.
        """
        self.check_leader()
        self.check_enough_replicas()
        batch = memoryview(
            control_batch(
                marker.type,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp=wall_ms,
            )
        )
        header = read_header(batch)
        self.log.producers.check_marker(header, marker, transaction_version)
        self.verification_guards.drop(producer_id)
        return self.append(batch, header, wall_ms=wall_ms) + 1

    @property
    def min_isr(self) -> int:
        """How many replicas must be in sync; never more than there are replicas."""
        return min(self.config.min_insync_replicas, len(self.followers) + 1)

    def check_enough_replicas(self) -> None:
        """Check that an append with acks=all is allowed.  Raises: Refused (NOT_ENOUGH_REPLICAS)."""
        if self.followers and len(self.in_sync.isr) < self.min_isr:
            raise Refused(ErrorCode.NOT_ENOUGH_REPLICAS, None)

    @property
    def has_enough_replicas(self) -> bool:
        """Whether enough replicas have what the high watermark has passed."""
        return not self.followers or len(self.in_sync.maximal) >= self.min_isr

    def low_watermark(self, alive: Container[int]) -> int:
        """No live replica has records before this offset; -1 if one has not reported yet."""
        starts = [f.log_start_offset for replica, f in self.followers.items() if replica in alive]
        return min([self.log.log_start_offset, *starts])

    # Followers.

    def check_follower(self, replica_id: int, current_leader_epoch: int) -> None:
        """Check that a broker has a replica.

        A broker that has none yet will have one in a later epoch, so it must ask again.
        Raises: Refused (UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER).
        """
        if replica_id not in self.followers:
            names_epoch = current_leader_epoch >= 0
            raise Refused(
                ErrorCode.UNKNOWN_LEADER_EPOCH if names_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
            )

    def follower_fetched(self, by: FetchingReplica, offset: int, log_start_offset: int) -> None:
        """Note that a follower (`check_follower`) fetches from `offset`: it has everything before.

        If it may join the in-sync set, this partition is added to `by.proposed`.
        """
        log, follower = self.log, self.followers[by.replica_id]
        has_moved = offset != follower.log_end_offset
        starts_later = log_start_offset > follower.log_start_offset
        follower.fetched(by, offset, log_start_offset, log.log_end_offset)
        if by.replica_id not in self.in_sync.maximal:
            follower.is_joining = by.is_alive and follower.is_caught_up(
                log.log_end_offset, now_ms=by.now_ms, lag_max_ms=by.lag_max_ms
            )
            if self._may_join(follower, is_alive=by.is_alive):
                self.in_sync = PendingExpand(self.in_sync.isr, by.replica_id)
                by.proposed.append(self)
        if has_moved:
            self._advance_high_watermark()
        if starts_later and self.waiters:
            self.wake()

    def must_tell(self, replica_id: int) -> bool:
        """Whether a follower has records that it does not know to be committed."""
        follower = self.followers.get(replica_id)
        return follower is not None and follower.lacks(self.log.high_watermark)

    def told(self, replica_id: int, high_watermark: int) -> None:
        """Note that a follower is told this high watermark."""
        if replica_id in self.followers:
            self.followers[replica_id].told_high_watermark = high_watermark

    def wait_for_living(self, alive: Container[int]) -> None:
        """Stop waiting for followers that are gone.

        A follower that was about to join and is gone no longer holds back the high watermark. Nor
        does a follower that is gone hold back the low watermark, so the waiters check again.
        """
        gone = [f for r, f in self.followers.items() if f.is_joining and r not in alive]
        for follower in gone:
            follower.is_joining = False
        if gone:
            self._advance_high_watermark()
        self.waiters.wake()

    def _may_join(self, follower: Follower, *, is_alive: bool) -> bool:
        return (
            is_alive
            and isinstance(self.in_sync, CommittedIsr)
            and follower.log_end_offset >= self.log.high_watermark
            and follower.log_end_offset >= self.epoch_start_offset
        )

    # The in-sync set.

    def shrink_isr(self, now_ms: int, lag_max_ms: int) -> bool:
        """Look for lagging followers; whether there is a smaller in-sync set to propose."""
        if not self.is_leader or not (self.followers or self.has_strangers):
            return False
        log_end_offset = self.log.log_end_offset
        lagging = {
            replica
            for replica, follower in self.followers.items()
            if not follower.is_caught_up(log_end_offset, now_ms=now_ms, lag_max_ms=lag_max_ms)
        }
        for replica in lagging:
            self.followers[replica].is_joining = False
        self._advance_high_watermark()
        if not isinstance(self.in_sync, CommittedIsr):
            return False
        isr = self.in_sync.isr
        leaving = tuple(
            r for r in isr if r != self.node_id and (r in lagging or r not in self.followers)
        )
        if leaving:
            self.in_sync = PendingShrink(isr, leaving)
        return bool(leaving)

    @property
    def proposal(self) -> Proposal | None:
        """The set to request from the controller."""
        pending = self.in_sync
        if isinstance(pending, CommittedIsr):
            return None
        return Proposal(pending, self.state.leader_epoch, self.state.partition_epoch)

    def isr_altered(
        self, proposal: Proposal, isr: Sequence[int], leader_epoch: int, partition_epoch: int
    ) -> None:
        """Take the set that the controller has answered with.

        An answer for another epoch, or to an outdated proposal, is ignored.
        """
        state = self.state
        if (
            self.in_sync is not proposal.pending
            or leader_epoch != state.leader_epoch
            or partition_epoch < state.partition_epoch
        ):
            return
        self.state = state._replace(
            isr=tuple(isr), partition_epoch=partition_epoch, is_recovering=False
        )
        self._commit(self.state.isr)
        for replica in self.state.isr:
            if replica in self.followers:
                self.followers[replica].is_joining = False
        self._advance_high_watermark()
        if self.waiters:
            self.wake()

    def isr_refused(self, proposal: Proposal, code: int) -> bool:
        """Handle the controller's refusal; whether to propose the same set again."""
        if self.in_sync is not proposal.pending:
            return False
        outcome = outcome_of(code)
        if outcome is Outcome.REVERT:
            self.in_sync = CommittedIsr(proposal.pending.isr)
            self._advance_high_watermark()  # the follower that was to join may be gone already
        return outcome is Outcome.RETRY

    def flushed(self, now_ms: int) -> None:
        """Note that a flush of the log has ended."""
        self.flushed_ms = now_ms
        if self.is_leader:
            self._advance_high_watermark()

    def _advance_high_watermark(self) -> None:
        log = self.log
        offset = log.log_end_offset
        if self.flush_due > log.flushing.recovery_point and self.awaits_flush:
            offset = log.recovery_point
        if self.followers:
            offset = self._replicated(offset)
        if offset > log.high_watermark and not self.has_strangers:
            log.high_watermark = offset
            if self.waiters:
                self.waiters.wake()

    def _replicated(self, offset: int) -> int:
        """The end, up to `offset`, of what all replicas that are or will be in sync have."""
        followers, in_sync = self.followers, self.in_sync
        in_sync_count = len(in_sync.isr)
        if in_sync_count <= len(followers) and in_sync_count < self.min_isr:
            return 0
        maximal = in_sync.maximal
        for replica, follower in followers.items():
            if follower.log_end_offset < offset and (replica in maximal or follower.is_joining):
                offset = follower.log_end_offset
        return offset
