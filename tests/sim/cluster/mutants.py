"""Deliberate bugs, to show that the simulator would see them: each is a patch of production code.

`MUTANTS` has them by name. None of them may be in force while another one is. `UNSEEN` are those
that 500 lives have not shown: what is still to be simulated.
"""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final
from unittest import mock

from odradek.broker.core import fetch_reads
from odradek.broker.core.controller import choices
from odradek.broker.core.elections import leader_if_offline
from odradek.broker.core.fetch_reads import Read
from odradek.broker.core.fetch_session import FetchContext
from odradek.broker.core.followers import Follower
from odradek.broker.core.isr import PendingExpand, PendingShrink
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState
from odradek.broker.core.replica import Replica
from odradek.broker.handlers import delayed_produce
from odradek.broker.handlers.delayed_produce import Appended
from odradek.broker.member.control import ControlRequests
from odradek.broker.partitions.replica_logs import ReplicaLogs
from odradek.broker.replication import repair
from odradek.broker.replication.fetcher import Fetcher
from odradek.broker.replication.following import Following
from odradek.broker.replication.repair import Cut, Repair
from odradek.protocol.errors import ErrorCode, Refused
from odradek.storage.directory.data_dir import DataDir
from odradek.storage.log import segment_scan
from odradek.storage.log.leader_epochs import LeaderEpochs
from odradek.storage.log.log import Log
from odradek.storage.log.staging import Staged
from odradek.storage.log.transactions import Transactions
from tests.sim.mutating import Mutants, nothing, put

from . import fetching
from .store import ClusterStore

MUTANTS: Final = Mutants()


UNSEEN: Final = frozenset(
    {
        "serve_any_leader_epoch",
        "keep_followers_of_earlier_epochs",
        "keep_the_checkpoint_after_a_loss",
        "take_over_whatever_is_written",
    }
)


# Followers.


@MUTANTS.add
def _truncate_by_high_watermark(patches: ExitStack) -> None:
    """As before KIP-101: who begins to follow cuts all that is above its high watermark."""

    async def prepare(self: Repair, followings: Iterable[Following]) -> None:
        followings = list(followings)
        unready = [f for f in followings if not f.is_prepared]
        await self._cut([Cut(f, f.partition.log.high_watermark) for f in unready])
        await before(self, followings)

    before = put(patches, Repair, "prepare", prepare)


@MUTANTS.add
def _cut_where_the_leader_says(patches: ExitStack) -> None:
    """The end of an epoch at the leader, whatever this log has of that epoch."""
    put(patches, repair, "truncation_offset", lambda log, epoch, end_offset: end_offset)


@MUTANTS.add
def _take_answers_of_earlier_leaders(patches: ExitStack) -> None:
    """What was asked for in an earlier leader epoch is appended all the same."""

    def follows(self: Fetcher, following: Following) -> bool:
        return self._local.replicas.partitions.get(following.key) is following.partition

    put(patches, Fetcher, "follows", follows)


@MUTANTS.add
def _ask_for_more_than_there_is(patches: ExitStack) -> None:
    """A fetch tells of one record more than the follower has."""

    def said(self: Fetcher, following: Following) -> tuple[int, ...]:
        epoch, offset, *others = before(self, following)
        return epoch, offset + 1, *others

    before = put(patches, Fetcher, "_said", said)


@MUTANTS.add
def _let_a_thread_write_on(patches: ExitStack) -> None:
    """What is written ahead of an append is written also if somebody else has come before it."""
    put(patches, Staged, "end", nothing)


@MUTANTS.add
def _take_over_whatever_is_written(patches: ExitStack) -> None:
    """Any append takes what a thread has written for its own."""
    put(patches, Staged, "is_next", lambda self, data: next(self._written, None) is not None)


@MUTANTS.add
def _forget_to_flush(patches: ExitStack) -> None:
    """Nothing waits for what is due to be made durable."""
    put(patches, Replica, "awaits_flush", property(lambda self: False))


# Leaders.


@MUTANTS.add
def _count_out_who_is_about_to_leave(patches: ExitStack) -> None:
    """The high watermark passes a member whose leaving nobody has written yet."""
    put(patches, PendingShrink, "maximal", property(lambda self: self.proposed))


@MUTANTS.add
def _count_in_who_joins_too_late(patches: ExitStack) -> None:
    """The high watermark passes a member that may be in sync already."""

    put(patches, PendingExpand, "maximal", property(lambda self: self.isr))

    class Never:
        def __get__(self, follower: object, kind: object = None) -> bool:
            return False

        def __set__(self, follower: object, value: bool) -> None:
            pass

    put(patches, Follower, "is_joining", Never())


@MUTANTS.add
def _skip_epochs_without_records(patches: ExitStack) -> None:
    """A leader that writes nothing leaves no trace of its epoch."""
    put(patches, Log, "assign_leader_epoch", nothing)


@MUTANTS.add
def _high_watermark_is_own_end(patches: ExitStack) -> None:
    """What the leader has counts as committed."""
    put(patches, Partition, "_replicated", lambda self, offset: offset)


@MUTANTS.add
def _serve_any_leader_epoch(patches: ExitStack) -> None:
    """Followers of an earlier or later leader epoch are answered."""

    def check_leader(self: Partition, current_leader_epoch: int = -1) -> None:
        if not self.is_leader:
            raise Refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    put(patches, Partition, "check_leader", check_leader)


@MUTANTS.add
def _do_not_look_where_logs_part(patches: ExitStack) -> None:
    """A follower is not told that it has other records."""
    put(patches, fetch_reads, "_diverging_epoch", lambda fetch, log: None)


@MUTANTS.add
def _keep_followers_of_earlier_epochs(patches: ExitStack) -> None:
    """A leader believes that followers have what they had when it led before."""
    known: dict[Partition, dict[int, Follower]] = {}

    def take(self: Partition, state: PartitionState, now_ms: int, *, is_new_epoch: bool) -> None:
        if getattr(self, "followers", None):
            known[self] = self.followers
        if state.leader == self.node_id and self in known:
            self.followers = known[self]
        before(self, state, now_ms, is_new_epoch=is_new_epoch)

    before = put(patches, Partition, "_take", take)
    put(patches, Follower, "reset", nothing)


@MUTANTS.add
def _join_before_the_epoch_start(patches: ExitStack) -> None:
    """A follower joins with all up to the high watermark, which a new leader does not know yet."""

    def may_join(self: Partition, follower: Follower, *, is_alive: bool) -> bool:
        epoch_start_offset, self.epoch_start_offset = self.epoch_start_offset, 0
        may: bool = before(self, follower, is_alive=is_alive)
        self.epoch_start_offset = epoch_start_offset
        return may

    before = put(patches, Partition, "_may_join", may_join)


@MUTANTS.add
def _tell_the_high_watermark_once(patches: ExitStack) -> None:
    """As if who is told to cut its log took the high watermark as well."""

    def is_answered(fetch: FetchContext, read: Read) -> bool:
        answered: bool = before(fetch, read)
        read.fetch.told_high_watermark = read.high_watermark
        return answered

    before = put(patches, fetching, "is_answered", is_answered)


# Answers to producers.


@MUTANTS.add
def _answer_below_min_isr(patches: ExitStack) -> None:
    """acks=all is content with the leader."""
    put(patches, Partition, "min_isr", property(lambda self: 1))


@MUTANTS.add
def _answer_before_it_is_committed(patches: ExitStack) -> None:
    """acks=all is answered with the append."""
    put(patches, delayed_produce.Appended, "may_be_answered", lambda self, *, acks_all: True)


@MUTANTS.add
def _answer_well_when_another_leads(patches: ExitStack) -> None:
    """Who loses the leadership tells waiting producers that all is well."""

    def look(self: Appended) -> None:
        if self.partition.is_leader:
            before(self)
        else:
            self.end()
            self._produce.settled(self)

    before = put(patches, Appended, "look", look)


# Controllers, and who listens to them.


@MUTANTS.add
def _elect_out_of_sync(patches: ExitStack) -> None:
    """Any live replica may lead, whatever the topic's settings say."""

    def elect(state: PartitionState, online: Any, *, allow_unclean: bool) -> Any:
        return leader_if_offline(state, online, allow_unclean=True)

    put(patches, choices, "leader_if_offline", elect)


@MUTANTS.add
def _write_states_unfenced(patches: ExitStack) -> None:
    """A controller that has a successor writes on, whatever the version of a node.

    The fence is the store's, so it is the simulated store that is patched.
    """

    def write(self: ClusterStore, state: PartitionState) -> bool:
        if state.key in self.states:
            self._put(state)
        return state.key in self.states

    put(patches, ClusterStore, "check_fence", nothing)
    patches.enter_context(mock.patch.object(ClusterStore, "_write", write))


@MUTANTS.add
def _listen_to_earlier_controllers(patches: ExitStack) -> None:
    """A broker does what a controller says that has a successor."""
    put(patches, ControlRequests, "_check_controller_epoch", nothing)


@MUTANTS.add
def _listen_to_what_was_meant_for_an_earlier_life(patches: ExitStack) -> None:
    """A broker does what it was to do before it was restarted."""
    put(patches, ControlRequests, "_check_broker_epoch", nothing)


# Disks.


@MUTANTS.add
def _recover_torn_batches(patches: ExitStack) -> None:
    """Recovery does not look at checksums."""

    class Equal:
        def __ne__(self, other: object) -> bool:
            return False

    put(patches, segment_scan, "iscsi", lambda data, *crc: Equal())


@MUTANTS.add
def _believe_the_checkpoint(patches: ExitStack) -> None:
    """The high watermark is what the checkpoint says, also beyond the log."""
    prior = Log.__dict__["high_watermark"]

    def believe(self: Log, offset: int) -> None:
        self._high_watermark = max(self._high_watermark, offset)

    put(patches, Log, "high_watermark", property(prior.fget, believe))


@MUTANTS.add
def _pass_markers_that_are_not_replicated(patches: ExitStack) -> None:
    """A transaction is stable once its marker is in the log."""

    def end(self: Transactions, producer_id: int, marker_offset: int) -> None:
        before(self, producer_id, marker_offset)
        self.replicated(marker_offset + 1)

    before = put(patches, Transactions, "end", end)


@MUTANTS.add
def _forget_unreplicated_markers_in_a_cut(patches: ExitStack) -> None:
    """As Kafka: after a cut only open transactions are known."""

    def take(self: Transactions, other: Transactions, offset_end: int) -> None:
        before(self, Transactions(), offset_end)

    before = put(patches, Transactions, "take_unreplicated", take)


@MUTANTS.add
def _keep_epochs_of_what_is_cut(patches: ExitStack) -> None:
    """A log that is cut keeps the epochs of what was there."""
    put(patches, LeaderEpochs, "truncate_end", nothing)


@MUTANTS.add
def _keep_gaps(patches: ExitStack) -> None:
    """A replica with records missing before others follows and leads with them."""
    put(patches, ReplicaLogs, "_without_gap", lambda self, kept, state: kept)


@MUTANTS.add
def _keep_the_checkpoint_after_a_loss(patches: ExitStack) -> None:
    """What lies below the old high watermark counts as committed after the next kill."""

    def suspect(self: DataDir) -> bool:
        before(self)
        return False

    before = put(patches, DataDir, "_suspect_lossy", suspect)
