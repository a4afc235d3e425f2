"""Which batches of a producer have to wait until a refused one comes again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.refused_batches import FOLLOWERS_MAX, REMEMBERED_MAX, RefusedBatches
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import INT32_MAX
from odradek.protocol.records import BatchHeader, read_header
from tests.support.messages import batch_of

KEY = ("t", 0)
REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def header(sequence: int, *, epoch: int = 0, producer_id: int = 7) -> BatchHeader:
    """The header of a batch of one record."""
    batch = batch_of(
        b"v", producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence & INT32_MAX
    )
    return read_header(memoryview(batch))


def code_of(batches: RefusedBatches, asked: BatchHeader, *, is_gap: bool = True) -> ErrorCode:
    """The code with which a batch is refused; NONE: it is not."""
    try:
        batches.check(KEY, asked, is_gap=is_gap)
    except Refused as refused:
        return refused.code
    return ErrorCode.NONE


def refused_at(sequence: int, code: ErrorCode = REFUSED) -> RefusedBatches:
    batches = RefusedBatches()
    batches.note(KEY, header(sequence), code)
    return batches


@pytest.mark.parametrize("sequence", [0, 5, INT32_MAX])
def test_later_ones_wait_until_it_comes_again(sequence: int) -> None:
    batches = refused_at(sequence)
    for later in (1, 2):
        assert code_of(batches, header(sequence + later)) == REFUSED
        batches.note(KEY, header(sequence + later), REFUSED)
    for again in (0, 1, 2):
        assert code_of(batches, header(sequence + again)) == ErrorCode.NONE


def test_an_earlier_one_may_come_again() -> None:
    batches = refused_at(5)
    assert code_of(batches, header(4)) == ErrorCode.NONE
    assert code_of(batches, header(6)) == REFUSED


def test_a_client_may_give_it_up() -> None:
    batches = refused_at(5)
    later = [code_of(batches, header(6 + number)) for number in range(FOLLOWERS_MAX + 2)]
    assert later == [REFUSED] * FOLLOWERS_MAX + [ErrorCode.NONE] * 2


def test_what_is_in_order_does_not_wait() -> None:
    batches = refused_at(5)
    assert code_of(batches, header(6), is_gap=False) == ErrorCode.NONE
    assert code_of(batches, header(6)) == REFUSED


@pytest.mark.parametrize("other", [header(6, epoch=1), header(6, producer_id=8)])
def test_other_producers_do_not_wait(other: BatchHeader) -> None:
    assert code_of(refused_at(5), other) == ErrorCode.NONE


def test_what_is_not_to_be_sent_again_holds_up_nothing() -> None:
    assert code_of(refused_at(5, ErrorCode.MESSAGE_TOO_LARGE), header(6)) == ErrorCode.NONE


def test_batches_without_a_producer_do_not_wait() -> None:
    batches = RefusedBatches()
    plain = read_header(memoryview(batch_of(b"v")))
    batches.note(KEY, plain, REFUSED)
    assert code_of(batches, plain) == ErrorCode.NONE


def test_few_are_remembered() -> None:
    batches = refused_at(0)
    for number in range(REMEMBERED_MAX):
        batches.note(("t", 1 + number), header(0), REFUSED)
    assert code_of(batches, header(1)) == ErrorCode.NONE
    with pytest.raises(Refused):
        batches.check(("t", 1), header(1), is_gap=True)


@pytest.mark.slow
@given(st.integers(0, INT32_MAX), st.lists(st.booleans(), max_size=12))
def test_nothing_is_appended_after_a_gap(first: int, leads: list[bool]) -> None:
    """Five batches are in flight, and all that were refused are sent again in order."""
    batches, appended, ready = RefusedBatches(), list[int](), iter(leads)
    while len(appended) < 5:
        for number in range(len(appended), 5):
            code = code_of(batches, header(first + number))
            if code == ErrorCode.NONE and next(ready, True):
                appended.append(number)
            else:
                batches.note(KEY, header(first + number), REFUSED)
    assert appended == [0, 1, 2, 3, 4]
