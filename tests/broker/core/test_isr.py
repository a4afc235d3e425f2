"""The in-sync set as a leader sees it, and what the controller's answers make of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from odradek.broker.core.followers import FetchingReplica
from odradek.broker.core.isr import CommittedIsr, Outcome, PendingExpand, PendingShrink, outcome_of
from odradek.broker.core.partition import Partition
from odradek.protocol.errors import ErrorCode, Refused

from .test_partition import append, partition_of

LAG_MS = 100


def fetch(
    partition: Partition, replica: int, offset: int, now_ms: int = 0, *, is_alive: bool = True
) -> bool:
    """Whether the fetch has brought a proposal."""
    by = FetchingReplica(replica, is_alive=is_alive, now_ms=now_ms, lag_max_ms=LAG_MS)
    partition.check_follower(replica, partition.state.leader_epoch)
    partition.follower_fetched(by, offset, 0)
    return by.proposed == [partition]


@pytest.fixture
def partition(tmp_path: Path) -> Partition:
    """Led here, with 2 in sync and 3 not; three records that 2 has fetched."""
    partition = partition_of(tmp_path, isr=(1, 2), replicas=(1, 2, 3))
    append(partition, b"a", b"b", b"c")
    fetch(partition, 2, 3)
    assert partition.log.high_watermark == 3
    return partition


def expanding(partition: Partition) -> PendingExpand:
    assert fetch(partition, 3, 3)
    assert isinstance(partition.in_sync, PendingExpand)
    return partition.in_sync


def shrinking(partition: Partition) -> PendingShrink:
    append(partition, b"d")
    assert partition.shrink_isr(LAG_MS + 1, LAG_MS)
    assert isinstance(partition.in_sync, PendingShrink)
    return partition.in_sync


def test_who_has_caught_up_joins(partition: Partition) -> None:
    assert not fetch(partition, 3, 2), "it must have all that is committed"
    pending = expanding(partition)
    assert (pending.isr, pending.maximal) == ((1, 2), (1, 2, 3))
    append(partition, b"d")
    fetch(partition, 2, 4)
    assert partition.log.high_watermark == 3, "3 may be in sync by now"
    proposal = partition.proposal
    assert proposal is not None
    assert (proposal.isr, proposal.leader_epoch, proposal.partition_epoch) == ((1, 2, 3), 5, 0)
    partition.isr_altered(proposal, [1, 2, 3], 5, 1)
    assert partition.in_sync == CommittedIsr((1, 2, 3))
    assert (partition.state.isr, partition.state.partition_epoch) == ((1, 2, 3), 1)
    assert partition.proposal is None
    fetch(partition, 3, 4)
    assert partition.log.high_watermark == 4


def test_a_dead_broker_does_not_join(partition: Partition) -> None:
    assert not fetch(partition, 3, 3, is_alive=False)
    assert partition.in_sync == CommittedIsr((1, 2))


def test_one_change_at_a_time(partition: Partition) -> None:
    expanding(partition)
    assert not partition.shrink_isr(LAG_MS * 9, LAG_MS)
    assert not fetch(partition, 3, 3)


def test_the_high_watermark_waits_for_who_is_about_to_join(partition: Partition) -> None:
    """Another change is under way, so that 3 can't be proposed yet."""
    append(partition, b"d")
    assert partition.shrink_isr(LAG_MS + 1, LAG_MS)
    fetch(partition, 3, 4, LAG_MS + 1)
    append(partition, b"e")
    proposal = partition.proposal
    assert proposal is not None
    assert proposal.isr == (1,)
    partition.isr_altered(proposal, [1], 5, 1)
    assert partition.log.high_watermark == 4, "3 has been at the end a moment ago"
    partition.shrink_isr(3 * LAG_MS, LAG_MS)
    assert partition.log.high_watermark == 5, "but is not any more"


def test_who_was_about_to_join_and_is_gone_is_not_waited_for(partition: Partition) -> None:
    """It was refused, as it was shutting down; and in Kafka too only the living count."""
    expanding(partition)
    proposal = partition.proposal
    assert proposal is not None
    assert not partition.isr_refused(proposal, ErrorCode.INELIGIBLE_REPLICA)
    append(partition, b"d")
    fetch(partition, 2, 4)
    partition.wait_for_living({2, 3})
    assert partition.log.high_watermark == 3, "3 lives, and will join"
    partition.wait_for_living({2})
    assert partition.log.high_watermark == 4


def test_who_has_gone_before_he_is_refused_is_not_waited_for_either(partition: Partition) -> None:
    expanding(partition)
    proposal = partition.proposal
    assert proposal is not None
    append(partition, b"d")
    fetch(partition, 2, 4)
    partition.wait_for_living({2})
    assert partition.log.high_watermark == 3, "the controller may take 3 in sync"
    assert not partition.isr_refused(proposal, ErrorCode.INELIGIBLE_REPLICA)
    assert partition.log.high_watermark == 4


def test_who_lags_leaves(partition: Partition) -> None:
    assert not partition.shrink_isr(10 * LAG_MS, LAG_MS), "2 is at the end, however long ago"
    append(partition, b"d")
    fetch(partition, 2, 3, LAG_MS)
    assert not partition.shrink_isr(LAG_MS, LAG_MS)
    fetch(partition, 2, 3, 5 * LAG_MS)  # it goes on fetching, but never gets further
    assert partition.shrink_isr(5 * LAG_MS, LAG_MS)
    assert partition.in_sync == PendingShrink((1, 2), (2,))
    assert partition.log.high_watermark == 3, "2 counts until the controller has agreed"
    proposal = partition.proposal
    assert proposal is not None
    partition.isr_altered(proposal, [1], 5, 1)
    assert partition.log.high_watermark == 4
    partition.become(partition.state._replace(leader=2, leader_epoch=6, partition_epoch=2), 0)
    assert not partition.shrink_isr(99 * LAG_MS, LAG_MS)


def test_a_follower_at_what_was_the_end_at_its_last_fetch_keeps_up(partition: Partition) -> None:
    for now_ms in range(50, 1000, 50):  # the leader is always a record ahead
        end = partition.log.log_end_offset
        append(partition, b"x")
        fetch(partition, 2, end, now_ms)
        assert not partition.shrink_isr(now_ms, LAG_MS)


@pytest.mark.parametrize("propose", [expanding, shrinking])
@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (ErrorCode.INELIGIBLE_REPLICA, Outcome.REVERT),
        (ErrorCode.OPERATION_NOT_ATTEMPTED, Outcome.REVERT),
        (ErrorCode.FENCED_LEADER_EPOCH, Outcome.WAIT),
        (ErrorCode.INVALID_UPDATE_VERSION, Outcome.WAIT),
        (ErrorCode.UNKNOWN_TOPIC_ID, Outcome.WAIT),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, Outcome.WAIT),
        (ErrorCode.INVALID_REQUEST, Outcome.WAIT),
        (ErrorCode.NEW_LEADER_ELECTED, Outcome.WAIT),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Outcome.RETRY),
        (12345, Outcome.RETRY),
    ],
)
def test_what_a_refusal_comes_to(
    partition: Partition,
    code: int,
    outcome: Outcome,
    propose: Callable[[Partition], PendingExpand | PendingShrink],
) -> None:
    assert outcome_of(code) is outcome
    pending = propose(partition)
    proposal = partition.proposal
    assert proposal is not None
    assert partition.isr_refused(proposal, code) is (outcome is Outcome.RETRY)
    expected = CommittedIsr((1, 2)) if outcome is Outcome.REVERT else pending
    assert partition.in_sync == expected
    state = partition.state._replace(isr=(1, 2, 3), leader_epoch=6, partition_epoch=9)
    partition.become(state, 0)
    assert partition.in_sync == CommittedIsr((1, 2, 3))
    assert not partition.isr_refused(proposal, ErrorCode.UNKNOWN_SERVER_ERROR), "too late"
    partition.isr_altered(proposal, [1], 6, 10)
    assert partition.in_sync == CommittedIsr((1, 2, 3)), "too late"


def test_answers_about_other_epochs_say_nothing(partition: Partition) -> None:
    pending = expanding(partition)
    proposal = partition.proposal
    assert proposal is not None
    partition.isr_altered(proposal, [1, 2, 3], 6, 1)
    partition.isr_altered(proposal, [1, 2, 3], 5, -1)
    assert partition.in_sync is pending


def test_nothing_is_committed_while_too_few_are_in_sync(tmp_path: Path) -> None:
    partition = partition_of(tmp_path, isr=(1,), replicas=(1, 2))
    partition.config.min_insync_replicas = 2
    with pytest.raises(Refused) as refused:
        partition.check_enough_replicas()
    assert refused.value.code == ErrorCode.NOT_ENOUGH_REPLICAS
    append(partition, b"a")
    assert partition.log.high_watermark == 0
    assert fetch(partition, 2, 1)
    assert partition.has_enough_replicas, "as 2 may be in sync by now"
    assert partition.log.high_watermark == 0, "but is not yet"
    proposal = partition.proposal
    assert proposal is not None
    partition.isr_altered(proposal, [1, 2], 5, 1)
    partition.check_enough_replicas()
    assert partition.log.high_watermark == 1


def test_a_topic_needs_no_more_replicas_than_it_has(tmp_path: Path) -> None:
    partition = partition_of(tmp_path)
    partition.config.min_insync_replicas = 3
    append(partition, b"a")
    assert partition.log.high_watermark == 1
    assert partition.min_isr == 1


def test_a_new_epoch_knows_nothing_of_its_followers(partition: Partition) -> None:
    append(partition, b"d")
    epoch = partition.state._replace(leader_epoch=6, partition_epoch=1)
    partition.become(epoch._replace(leader=2), 0)
    with pytest.raises(Refused):
        partition.check_follower(3, 6)
    partition.become(epoch._replace(leader_epoch=7, partition_epoch=2), 50)
    assert partition.epoch_start_offset == 4
    assert partition.log.high_watermark == 3
    assert partition.log.end_offset_for_epoch(7) == (7, 4), "though nothing was written in it"
    assert not partition.shrink_isr(50 + LAG_MS, LAG_MS), "who is in sync has its time"
    assert not fetch(partition, 3, 3, 60), "it has not all of the epochs before"
    assert fetch(partition, 3, 4, 60)
    fetch(partition, 2, 4, 60)
    assert partition.log.high_watermark == 4


def test_the_start_that_all_living_replicas_have(partition: Partition) -> None:
    partition.log.advance_log_start(3)
    assert partition.low_watermark({1, 2}) == 0
    by = FetchingReplica(2, is_alive=True, now_ms=0, lag_max_ms=LAG_MS)
    woken: list[int] = []
    partition.waiters.add(lambda: woken.append(partition.low_watermark({1, 2})))
    partition.follower_fetched(by, 3, 2)
    assert woken == [2]
    assert partition.low_watermark({1}) == 3
    assert partition.low_watermark({1, 3}) == -1, "it was never heard of"
