"""Batches that were not verified come first when they are sent again."""

import pytest

from odradek.broker.core.effects import Producer
from odradek.broker.core.verification_guards import ASKED_KEPT_MAX, VerificationGuards
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import BatchHeader, read_header
from tests.support.messages import batch_of


def header(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    return read_header(
        batch_of(
            b"v",
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=True,
        )
    )


def ask(guards: VerificationGuards, sequence: int, *, epoch: int = 0, producer_id: int = 7) -> None:
    guards.asked(Producer(producer_id, epoch), sequence)


def is_in_order(guards: VerificationGuards, sequence: int, **more: int) -> bool:
    try:
        guards.check_order(header(sequence, **more))
    except Refused as refused:
        assert refused.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        return False
    return True


@pytest.fixture
def guards() -> VerificationGuards:
    return VerificationGuards()


def test_a_later_batch_waits_for_the_earliest(guards: VerificationGuards) -> None:
    ask(guards, 5)
    ask(guards, 3)
    ask(guards, 8)
    assert [is_in_order(guards, n) for n in (3, 4, 5, 8)] == [True, False, False, False]
    assert is_in_order(guards, 9, producer_id=8)


def test_a_new_epoch_begins_anew(guards: VerificationGuards) -> None:
    ask(guards, 3)
    ask(guards, 6, epoch=1)
    assert is_in_order(guards, 6, epoch=1)
    ask(guards, 0)  # of the old epoch
    assert is_in_order(guards, 6, epoch=1)
    assert not is_in_order(guards, 7, epoch=1)


@pytest.mark.parametrize("other", [0, 2])
def test_a_batch_of_another_epoch_holds_up_nothing(guards: VerificationGuards, other: int) -> None:
    """Whoever knows a producer id can ask for any epoch; the coordinator refuses it."""
    ask(guards, 1, epoch=other)
    assert is_in_order(guards, 5, epoch=1)


def test_an_open_transaction_has_its_own_order(guards: VerificationGuards) -> None:
    ask(guards, 3)
    guards.appended(7)
    assert is_in_order(guards, 9)


def test_a_marker_ends_the_wait(guards: VerificationGuards) -> None:
    ask(guards, 3)
    guards.drop(7)
    assert is_in_order(guards, 9)
    ask(guards, 3)
    guards.clear()
    assert is_in_order(guards, 9)


def test_the_oldest_are_forgotten(guards: VerificationGuards) -> None:
    for producer_id in range(ASKED_KEPT_MAX + 1):
        ask(guards, 3, producer_id=producer_id)
    assert is_in_order(guards, 4, producer_id=0)
    assert not is_in_order(guards, 4, producer_id=1)
