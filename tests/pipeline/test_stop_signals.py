"""Signals that ask a job to stop, and those that come after them."""

import signal
from collections.abc import Iterator

import pytest

from odradek.pipeline.stop_signals import stop_signals


@pytest.fixture
def before() -> Iterator[list[int]]:
    """The signals that reached the handler of before."""
    came: list[int] = []
    handler = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    yield came
    signal.signal(signal.SIGTERM, handler)


def test_the_first_signal_is_a_wish_and_the_next_one_is_not(before: list[int]) -> None:
    with stop_signals() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert (stop.is_set(), stop.now, before) == (True, False, [])
        signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM]


def test_a_job_may_understand_two(before: list[int]) -> None:
    with stop_signals(caught=2) as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        assert (stop.now, before) == (True, [])
        signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM]


def test_afterwards_all_is_as_it_was(before: list[int]) -> None:
    with stop_signals():
        pass
    signal.raise_signal(signal.SIGTERM)
    assert before == [signal.SIGTERM]
