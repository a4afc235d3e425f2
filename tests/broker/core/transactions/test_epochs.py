"""The epochs of a transactional id: who is fenced, who may ask again, and what follows the last."""

from unittest import mock

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.core.transactions.states import TransactionState
from odradek.broker.core.transactions.transaction import EPOCH_LAST
from odradek.protocol.errors import ErrorCode

from .running import A, Running
from .test_requests import OWNER, at

FENCED = ErrorCode.PRODUCER_FENCED


def test_who_did_not_hear_the_answer_asks_again() -> None:
    run = Running()
    first = run.init().got
    second = run.init(first).got
    assert second == (first.producer_id, first.producer_epoch + 1)
    assert run.init(first).got == second
    assert run.init(first).got == second
    third = run.init(second).got
    assert third.producer_epoch == second.producer_epoch + 1
    assert run.init(first).code is FENCED
    assert run.init(second).got == third


def test_a_new_producer_ends_the_right_to_ask_again() -> None:
    run = Running()
    first = run.init().got
    run.init(first)
    newer = run.init().got
    assert run.init(first).code is FENCED
    assert run.init(newer).got > newer


def test_after_a_load_who_asks_again_is_fenced() -> None:
    """The records do not say with which epoch the producer asked."""
    run = Running()
    first = run.init().got
    second = run.init(first).got
    run.lose()
    assert run.init(first).code is FENCED
    assert run.init(second).got > second


def test_adding_partitions_keeps_the_right_to_ask_again() -> None:
    run = Running()
    first = run.init().got
    second = run.init(first).got
    run.add(second, A)
    run.end(second)
    run.mark()
    assert run.init(first).got == second


def test_the_open_transaction_of_an_older_producer_is_aborted_first() -> None:
    run = Running()
    first = run.init().got
    run.add(first, A)
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert run.sent[-1].producer == (first.producer_id, first.producer_epoch + 1)
    assert not run.sent[-1].commits
    assert run.end(first).code is FENCED
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    run.mark()
    assert run.init().got == (first.producer_id, first.producer_epoch + 2)


def test_a_fence_that_the_log_refuses_fences_nobody() -> None:
    """Kafka remembers the epoch that it could not write; here nothing has happened yet."""
    run = Running()
    first = run.init().got
    run.add(first, A)
    run.refuse = ErrorCode.NOT_ENOUGH_REPLICAS
    assert run.init().code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    run.refuse = ErrorCode.NONE
    assert run.end(first).code is ErrorCode.NONE
    run.mark()
    assert run.init().got == (first.producer_id, first.producer_epoch + 1)


@pytest.mark.parametrize("claims", [False, True])
def test_after_the_last_epoch_comes_another_producer_id(claims: bool) -> None:
    run = at(TransactionState.EMPTY, epoch=EPOCH_LAST - 1)
    last = run.init().got
    assert last == (OWNER.producer_id, EPOCH_LAST)
    following = run.init(last if claims else None).got
    assert following.producer_id != last.producer_id
    assert following.producer_epoch == 0
    assert run.init(last).code is (ErrorCode.NONE if claims else FENCED)
    assert run.add(last, A).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    if claims:  # it was only told again
        assert run.known().producer_epoch == 0
        assert run.init(Producer(last.producer_id, EPOCH_LAST - 1)).code is FENCED


def test_who_asks_again_for_the_last_epoch_gets_it() -> None:
    """Kafka 3.9 fails here (IllegalStateException)."""
    run = at(TransactionState.EMPTY, epoch=EPOCH_LAST - 1)
    last = run.init(Producer(OWNER.producer_id, EPOCH_LAST - 1)).got
    assert last.producer_epoch == EPOCH_LAST
    assert run.init(Producer(OWNER.producer_id, EPOCH_LAST - 1)).got == last


def test_an_id_that_was_not_reserved_in_time_is_asked_for_again() -> None:
    """Between a request's look at the id and its turn, others may have used up the epochs."""
    run = at(TransactionState.EMPTY, epoch=EPOCH_LAST)
    before = len(run.log)
    with mock.patch.object(run.shard, "needs_producer_id", side_effect=[False, True]):
        assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(run.log) == before


def test_one_epoch_is_left_to_fence_the_last_one() -> None:
    run = at(TransactionState.ONGOING, epoch=EPOCH_LAST)
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert run.sent[-1].producer == (OWNER.producer_id, EPOCH_LAST + 1)
    run.mark()
    assert run.init(Producer(OWNER.producer_id, EPOCH_LAST)).code is FENCED
    assert run.init().got.producer_epoch == 0


def test_who_claims_an_epoch_that_nobody_was_given_is_aborted_all_the_same() -> None:
    run = at(TransactionState.COMPLETE_ABORT, epoch=EPOCH_LAST + 1)
    forged = Producer(OWNER.producer_id, EPOCH_LAST + 1)
    assert run.add(forged, A).code is ErrorCode.NONE
    assert run.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert run.sent[-1].producer == forged
    run.mark()
    assert run.init().got.producer_epoch == 0
    assert run.add(forged, A).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
