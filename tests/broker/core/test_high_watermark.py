"""Whatever happens to followers and in-sync sets, what is committed is on all who may lead next."""

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.isr import CommittedIsr, Proposal
from odradek.protocol.errors import ErrorCode
from tests.seeds import seeds

from .test_partition import append, partition_of

LAG_MS = 100
REPLICAS = (1, 2, 3, 4)
MOSTLY = st.sampled_from([True, True, True, True, False])
REVERTED = st.sampled_from([ErrorCode.INELIGIBLE_REPLICA, ErrorCode.OPERATION_NOT_ATTEMPTED])


class Leading(RuleBasedStateMachine):
    """Broker 1 leads; the machine plays the followers and the controller."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        path = Path(self.directory.name)
        self.partition = partition_of(path, isr=(1, 2), replicas=REPLICAS)
        self.now_ms = 0
        self.fetched = dict.fromkeys(REPLICAS, 0)
        self.written = self.partition.state  # what the controller has written
        self.high_watermark = 0

    @initialize(min_isr=st.integers(1, 2))
    def configure(self, min_isr: int) -> None:
        self.partition.config.min_insync_replicas = min_isr

    def teardown(self) -> None:
        self.partition.log.abandon()
        self.directory.cleanup()

    @rule(count=st.integers(1, 3))
    def produce(self, count: int) -> None:
        append(self.partition, *[b"v"] * count)

    @rule(
        replica=st.sampled_from(REPLICAS[1:]),
        step=st.sampled_from([0, 1, 99]),
        is_alive=MOSTLY,
    )
    def fetch(self, replica: int, step: int, is_alive: bool) -> None:
        end = self.partition.log.log_end_offset
        self.fetched[replica] = min(end, self.fetched[replica] + step)
        by = FetchingReplica(replica, is_alive=is_alive, now_ms=self.now_ms, lag_max_ms=LAG_MS)
        self.partition.follower_fetched(by, self.fetched[replica], 0)

    @rule(ms=st.sampled_from([LAG_MS // 10, LAG_MS + 1]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.partition.shrink_isr(self.now_ms, LAG_MS)

    @rule(is_answered=st.booleans())
    def alter(self, is_answered: bool) -> None:
        """The controller writes it; an answer that is lost comes with the next request."""
        proposal = self.partition.proposal
        if proposal is None:
            return
        written = self.written
        if proposal.leader_epoch != written.leader_epoch:
            self.partition.isr_refused(proposal, ErrorCode.FENCED_LEADER_EPOCH)
            return
        if proposal.isr != written.isr:
            if proposal.partition_epoch != written.partition_epoch:
                self.partition.isr_refused(proposal, ErrorCode.INVALID_UPDATE_VERSION)
                return
            self.written = written._replace(
                isr=proposal.isr, partition_epoch=written.partition_epoch + 1
            )
        if is_answered:
            self._answer(proposal)

    def _answer(self, proposal: Proposal) -> None:
        written = self.written
        self.partition.isr_altered(
            proposal, written.isr, written.leader_epoch, written.partition_epoch
        )

    @rule(code=REVERTED, accepts=MOSTLY)
    def refuse(self, code: ErrorCode, accepts: bool) -> None:
        proposal = self.partition.proposal
        if accepts or proposal is None:
            return
        if proposal.partition_epoch == self.written.partition_epoch:
            self.partition.isr_refused(proposal, code)

    @rule(stays=MOSTLY, lead=st.booleans())
    def new_epoch(self, stays: bool, lead: bool) -> None:
        """By way of another leader, who writes nothing, or not."""
        if stays:
            return
        epochs: dict[str, Any] = {
            "leader_epoch": self.written.leader_epoch + 1,
            "partition_epoch": self.written.partition_epoch + 1,
        }
        if lead:
            self.partition.become(self.written._replace(leader=2, **epochs), self.now_ms)
            epochs = {name: epoch + 1 for name, epoch in epochs.items()}
        self.written = self.written._replace(**epochs)
        self.partition.become(self.written, self.now_ms)

    @invariant()
    def what_is_committed_is_on_all_who_may_lead(self) -> None:
        high_watermark = self.partition.log.high_watermark
        assert high_watermark >= self.high_watermark
        self.high_watermark = high_watermark
        for replica in {*self.partition.in_sync.maximal, *self.written.isr} - {1}:
            assert self.fetched[replica] >= high_watermark

    @invariant()
    def who_is_committed_is_what_the_controller_wrote(self) -> None:
        in_sync = self.partition.in_sync
        if isinstance(in_sync, CommittedIsr):
            assert in_sync.isr == self.partition.state.isr == self.written.isr


TestLeading = Leading.TestCase
TestLeading.settings = settings(
    max_examples=len(seeds(10, 200)), stateful_step_count=40, deadline=None
)
