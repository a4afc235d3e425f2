"""What a coordinator does without being asked: it aborts, forgets ids, and goes on with an end."""

from itertools import pairwise
from typing import Any

import pytest

from odradek.broker.core.transactions.requests import Filters
from odradek.broker.core.transactions.states import AT_REST, TransactionState
from odradek.protocol.errors import ErrorCode, Refused

from .running import ID, TIMEOUT_MS, A, B, Running
from .test_requests import OWNER, STATES, at

CHECK_MS = 10_000
DAY_MS = 86_400_000
HOUR_MS = 3_600_000
WEEK_MS = 7 * DAY_MS
EVERYTHING = Filters(states=None, producer_ids=None, duration_ms=-1)


def ongoing() -> Running:
    run = Running()
    run.add(run.init().got, A)
    return run


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() -> None:
    run = ongoing()
    producer = run.transaction().producer
    run.pass_time(TIMEOUT_MS)
    assert run.known().state is TransactionState.ONGOING
    run.pass_time(CHECK_MS)
    assert run.known().state is TransactionState.PREPARE_ABORT
    assert run.sent[-1].producer == (producer.producer_id, producer.producer_epoch + 1)
    assert run.end(producer).code is ErrorCode.PRODUCER_FENCED


def test_more_partitions_give_no_more_time() -> None:
    run = ongoing()
    run.pass_time(TIMEOUT_MS - 1)
    run.add(run.transaction().producer, B)
    run.pass_time(CHECK_MS + 1)
    assert run.known().state is TransactionState.PREPARE_ABORT
    assert run.sent[-1].partitions == {A, B}


def test_the_next_transaction_has_a_time_of_its_own() -> None:
    run = ongoing()
    producer = run.transaction().producer
    run.pass_time(TIMEOUT_MS - 1)
    run.end(producer)
    run.mark()
    run.add(producer, A)
    run.pass_time(TIMEOUT_MS)
    assert run.known().state is TransactionState.ONGOING
    run.pass_time(CHECK_MS)
    assert run.known().state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("state", [state for state in STATES if state is not None])
def test_only_an_open_transaction_has_a_deadline(state: TransactionState) -> None:
    run = at(state)
    run.ring()
    before = len(run.log)
    run.pass_time(TIMEOUT_MS + CHECK_MS)
    assert len(run.log) == before + (state is TransactionState.ONGOING)


def test_an_abort_that_is_refused_comes_with_the_next_check() -> None:
    run = ongoing()
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    run.pass_time(TIMEOUT_MS + CHECK_MS)
    assert run.known().state is TransactionState.ONGOING
    run.refuse = ErrorCode.NONE
    run.pass_time(CHECK_MS)
    assert run.known().state is TransactionState.PREPARE_ABORT


def test_the_time_comes_while_something_is_pending() -> None:
    run = ongoing()
    run.holds = True
    run.add(run.transaction().producer, B)
    run.pass_time(TIMEOUT_MS + CHECK_MS)
    assert len(run.appends) == 1
    run.commit()
    run.pass_time(CHECK_MS)
    run.commit()
    assert run.known().state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("jump_ms", [-WEEK_MS, 4 * WEEK_MS])
@pytest.mark.parametrize("is_pending", [False, True])
def test_a_jump_of_the_wall_clock_aborts_nothing_early_and_nothing_late(
    jump_ms: int, is_pending: bool
) -> None:
    run = Running()
    producer = run.init().got
    run.holds = is_pending
    run.add(producer, A)
    run.pass_time(0, wall_ms=jump_ms)
    run.commit()
    run.holds = False
    run.pass_time(TIMEOUT_MS)
    assert run.known().state is TransactionState.ONGOING
    run.pass_time(CHECK_MS)
    assert run.known().state is TransactionState.PREPARE_ABORT


def test_a_jump_of_the_wall_clock_forgets_no_id_early() -> None:
    run = Running()
    run.init()
    run.pass_time(WEEK_MS - DAY_MS)
    run.init()
    run.pass_time(0, wall_ms=4 * WEEK_MS)
    run.pass_time(2 * DAY_MS)
    assert list(run.shard.ids) == [ID]
    run.pass_time(5 * DAY_MS + HOUR_MS)
    assert list(run.shard.ids) == []


def test_loaded_deadlines_are_those_of_the_log() -> None:
    run = ongoing()
    run.pass_time(TIMEOUT_MS - CHECK_MS)
    run.lose()
    run.pass_time(CHECK_MS - 1)
    assert run.known().state is TransactionState.ONGOING
    run.pass_time(CHECK_MS + 1)
    assert run.known().state is TransactionState.PREPARE_ABORT


def test_an_open_transaction_of_another_clock_has_its_timeout_at_most() -> None:
    """The coordinator before had a clock that was a year fast."""
    run = ongoing()
    run.wall_ms -= 365 * DAY_MS
    run.lose()
    run.pass_time(TIMEOUT_MS + CHECK_MS)
    assert run.known().state is TransactionState.PREPARE_ABORT


@pytest.mark.parametrize("state", sorted(AT_REST))
def test_an_id_that_is_not_used_is_forgotten(state: TransactionState) -> None:
    run = at(state)
    run.pass_time(WEEK_MS - 1)
    assert len(run.log) == 1
    run.holds = True
    run.pass_time(HOUR_MS + 1)
    assert [record.value for record in run.log[1:]] == [None]
    assert list(run.shard.ids) == [ID]
    run.commit()
    assert list(run.shard.ids) == []
    assert run.add(OWNER, A).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    run.lose()
    assert list(run.shard.ids) == []


def test_ids_are_not_forgotten_all_at_once() -> None:
    """Each is a record to append: thousands would delay everything else."""
    run = Running()
    for number in range(200):
        run.init(key=f"{number}")
    run.pass_time(WEEK_MS)
    left = [len([*run.shard.ids])]
    for _ in range(10):
        run.pass_time(HOUR_MS // 10)
        left.append(len([*run.shard.ids]))
    assert (left[0], left[-1]) == (200, 0)
    assert max(before - after for before, after in pairwise(left)) < 50


def test_an_id_is_not_forgotten_while_something_is_pending() -> None:
    run = at(TransactionState.EMPTY)
    run.holds = True
    run.add(OWNER, A)
    run.pass_time(WEEK_MS + HOUR_MS)
    assert len(run.log) == 2
    run.commit()
    assert run.known().state is TransactionState.ONGOING


def test_a_tombstone_that_is_refused_comes_with_the_next_check() -> None:
    run = at(TransactionState.EMPTY)
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    run.pass_time(WEEK_MS + HOUR_MS)
    assert list(run.shard.ids) == [ID]
    run.refuse = ErrorCode.NONE
    run.pass_time(HOUR_MS)
    assert list(run.shard.ids) == []


def test_ids_live_longer_if_the_setting_is_raised_meanwhile() -> None:
    run = at(TransactionState.EMPTY)
    run.settings = type(run.settings)(id_expiration_ms=2 * WEEK_MS)
    run.pass_time(WEEK_MS + HOUR_MS)
    assert list(run.shard.ids) == [ID]
    run.pass_time(WEEK_MS)
    assert list(run.shard.ids) == []


def test_the_first_record_is_refused_and_nothing_is_left() -> None:
    run = Running()
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert run.init().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert list(run.shard.ids) == []


def test_the_last_marker_completes_a_transaction() -> None:
    run = at(TransactionState.ONGOING)
    run.add(OWNER, B)
    run.end(OWNER)
    markers = run.sent[-1]
    run.mark(A)
    run.mark(A)
    assert run.transaction().open_partitions == {B}
    assert run.known().state is TransactionState.PREPARE_COMMIT
    run.mark(B)
    assert run.known().state is TransactionState.COMPLETE_COMMIT
    assert run.transaction().open_partitions == set()
    run.mark(B)  # once more changes nothing
    assert len(run.log) == 4
    run.add(OWNER, A, B)
    run.end(OWNER)
    run.mark(A, B, markers=markers)  # late, and of the transaction before
    assert run.known().state is TransactionState.PREPARE_COMMIT
    run.shard.unload()
    run.mark()
    assert len(run.log) == 6


def test_a_transaction_without_partitions_ends_at_once() -> None:
    run = at(TransactionState.EMPTY)
    run.add(OWNER)
    run.end(OWNER)
    assert run.known().state is TransactionState.COMPLETE_COMMIT
    assert run.sent == []


@pytest.mark.parametrize("commits", [False, True])
def test_a_loaded_decision_is_carried_out(commits: bool) -> None:
    run = at(TransactionState.ONGOING)
    run.end(OWNER, commits=commits)
    run.sent.clear()
    run.lose()
    assert run.sent == []
    run.ring()
    (markers,) = run.sent
    assert (markers.producer, markers.partitions, markers.commits) == (
        OWNER,
        frozenset({A}),
        commits,
    )
    run.mark()
    run.lose()
    assert run.known().state.name == ("COMPLETE_COMMIT" if commits else "COMPLETE_ABORT")


# Administration.


def test_ids_are_listed_by_state_producer_and_age() -> None:
    run = ongoing()
    run.init(key="idle")
    run.holds = True
    run.init(key="not yet")

    def ids(**filters: Any) -> list[str]:
        found = run.shard.listed(EVERYTHING._replace(**filters), run.wall_ms)
        return [transaction.transactional_id for transaction in found]

    assert ids() == [ID, "idle"]
    assert ids(states=frozenset({"Ongoing"})) == [ID]
    assert ids(states=frozenset({"Dead"})) == []
    assert ids(producer_ids=frozenset({run.known("idle").producer_id})) == ["idle"]
    assert ids(states=frozenset({"Ongoing"}), duration_ms=0) == []
    run.pass_time(1)
    assert ids(states=frozenset({"Ongoing"}), duration_ms=0) == [ID]
    assert ids(states=frozenset({"Ongoing"}), duration_ms=1) == []


def test_an_id_is_described_once_it_is_committed() -> None:
    run = Running()
    run.holds = True
    run.init()
    for key in (ID, "unknown"):
        with pytest.raises(Refused) as refused:
            run.shard.describe(key)
        assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    run.commit()
    assert run.shard.describe(ID).known.state is TransactionState.EMPTY
