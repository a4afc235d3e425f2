"""Version 2 of transactions (KIP-890): each end of a transaction raises the epoch."""

from collections.abc import Callable
from typing import Final

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.core.transactions.states import TransactionState
from odradek.broker.core.transactions.transaction import EPOCH_LAST
from odradek.protocol.errors import ErrorCode
from tests.support.traces import check_trace

from .running import A, B, Running, Waiting
from .test_requests import OWNER, STATES, TRACES, at, told

FENCED, STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
BEFORE, AFTER, OTHER = Producer(7, 2), Producer(7, 4), Producer(8, 3)
ENDS: Final[dict[str, Callable[[Running], Waiting | ErrorCode]]] = {
    f"{'commit' if commits else 'abort'} {version}{label}": (
        lambda run, producer=producer, commits=commits, version=version: run.end(  # type: ignore[misc]
            producer, commits=commits, client_version=2 if version == "v5" else 0
        )
    )
    for version in ("v5", "v4")
    for commits in (True, False)
    for producer, label in (
        (OWNER, ""),
        (BEFORE, " as 7/2"),
        (AFTER, " as 7/4"),
        (OTHER, " as 8/3"),
    )
}
REQUESTS: Final[dict[str, Callable[[Running], Waiting | ErrorCode]]] = {
    "init": lambda run: run.init(),
    "init, claims to be 7/3": lambda run: run.init(OWNER),
    "init, claims to be 7/2": lambda run: run.init(BEFORE),
    "add t-0": lambda run: run.add(OWNER, A, client_version=2),
    "add t-1": lambda run: run.add(OWNER, B, client_version=2),
    "add t-1 as 7/2": lambda run: run.add(BEFORE, B, client_version=2),
    "add t-1 as 8/3": lambda run: run.add(OTHER, B, client_version=2),
    **ENDS,
}


@pytest.mark.parametrize("client_version", [0, 2])
def test_every_request_in_every_state(client_version: int) -> None:
    """`client_version`: of the client of the last event."""
    lines = []
    for state in STATES:
        lines.append("No such id" if state is None else state.kafka_name)
        for name, ask in REQUESTS.items():
            run = at(state, version=2, client_version=client_version)
            before = len(run.log)
            lines.append(f"  {name:24}{told(run, before, ask(run))}")
        lines.append("")
    path = TRACES / f"requests_version_2_after_{client_version}.txt"
    check_trace(path, "\n".join(lines))


def running() -> tuple[Running, Producer]:
    run = Running(version=2)
    return run, run.init().got


def transact(run: Running, producer: Producer, *, commits: bool = True) -> Producer:
    """A whole transaction; how its producer goes on."""
    assert run.add(producer, A, client_version=2).code is ErrorCode.NONE
    after = run.end(producer, commits=commits, client_version=2).got
    run.mark()
    return after


def test_each_transaction_has_its_own_epoch() -> None:
    run, first = running()
    second = transact(run, first)
    third = transact(run, second, commits=False)
    assert [first, second, third] == [(1000, 0), (1000, 1), (1000, 2)]
    assert [markers.producer for markers in run.sent] == [second, third]
    assert [markers.client_version for markers in run.sent] == [2, 2]
    assert run.add(second, A, client_version=2).code is FENCED


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("commits", [True, False])
def test_who_did_not_hear_the_answer_asks_again(commits: bool, is_killed: bool) -> None:
    run, first = running()
    run.add(first, A, client_version=2)
    second = run.end(first, commits=commits, client_version=2).got
    if is_killed:
        run.lose()
        run.ring()
    again = run.end(first, commits=commits, client_version=2)
    assert again.code is ErrorCode.CONCURRENT_TRANSACTIONS
    run.mark()
    if is_killed:
        run.lose()
    assert run.end(first, commits=commits, client_version=2).got == second
    assert run.end(first, commits=not commits, client_version=2).code is STATE
    run.add(second, A, client_version=2)
    assert run.end(first, commits=commits, client_version=2).code is FENCED


def test_a_transaction_without_partitions_can_be_aborted() -> None:
    run, first = running()
    assert run.end(first, client_version=2).code is STATE
    second = run.end(first, commits=False, client_version=2).got
    third = run.end(second, commits=False, client_version=2).got
    assert (second, third) == ((1000, 1), (1000, 2))
    assert run.known().state is TransactionState.COMPLETE_ABORT
    assert run.sent == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_after_the_last_epoch_the_id_changes(is_killed: bool) -> None:
    run = at(TransactionState.ONGOING, version=2, client_version=2, epoch=EPOCH_LAST)
    last = Producer(OWNER.producer_id, EPOCH_LAST)
    after = run.end(last, client_version=2).got
    assert after == (1000, 0)
    assert run.sent[-1].producer == (7, EPOCH_LAST + 1)
    if is_killed:
        run.lose()
        run.ring()
    run.mark()
    assert run.transaction().producer == after
    if is_killed:
        run.lose()
    assert run.end(last, client_version=2).got == after
    assert run.end(Producer(7, EPOCH_LAST - 1), client_version=2).code is (
        ErrorCode.INVALID_PRODUCER_ID_MAPPING
    )
    assert transact(run, after) == (1000, 1)


def test_a_time_out_at_the_last_epoch_waits_for_an_id() -> None:
    run = at(TransactionState.ONGOING, version=2, client_version=2, epoch=EPOCH_LAST)
    run.has_ready_ids = False
    run.pass_time(3_600_000)
    assert run.known().is_ongoing
    run.has_ready_ids = True
    run.pass_time(1_000)
    run.mark()
    assert run.transaction().producer == (1000, 0)


def test_a_new_producer_fences_at_the_last_epoch() -> None:
    run = at(TransactionState.ONGOING, version=2, client_version=2, epoch=EPOCH_LAST)
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    run.mark()
    assert run.init().got == (1000, 1)


def test_a_new_producer_fences_with_two_epochs() -> None:
    run, first = running()
    run.add(first, A, client_version=2)
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    run.mark()
    assert run.init().got == (1000, 2)
    assert run.end(first, client_version=2).code is FENCED


def test_after_a_time_out_the_producer_may_abort_and_go_on() -> None:
    run, first = running()
    run.add(first, A, client_version=2)
    run.pass_time(3_600_000)
    run.mark()
    assert run.end(first, client_version=2).code is STATE
    assert run.end(first, commits=False, client_version=2).got == (1000, 1)


def test_who_was_followed_by_an_older_client_is_fenced() -> None:
    """The older client got its epoch from InitProducerId, so it is not an answer to repeat."""
    run, zombie = running()
    older = run.init().got
    run.add(older, A)
    assert run.end(older).got == older
    run.mark()
    assert run.end(zombie, client_version=2).code is FENCED
    assert run.end(older).got == older


def test_an_older_client_keeps_its_epoch() -> None:
    run, first = running()
    for _ in range(2):
        run.add(first, A)
        assert run.end(first).got == first
        assert (run.sent[-1].producer, run.sent[-1].client_version) == (first, 0)
        run.mark()


def test_records_go_on_after_a_change_of_the_setting() -> None:
    """A transaction that was decided with version 2 ends so with version 0."""
    run = at(TransactionState.ONGOING, version=2, client_version=2, epoch=EPOCH_LAST)
    run.end(Producer(7, EPOCH_LAST), client_version=2)
    run.settings = Running(version=0).settings
    run.lose()
    run.ring()
    run.mark()
    assert run.transaction().producer == (1000, 0)
    assert [record.version for record in run.log] == [1, 1, 0]
