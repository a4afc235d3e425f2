"""Deadlines that are moved far more often than met."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker.core.groups.deadlines import STALE_MAX, Deadlines

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("clear"), KEYS, st.just(0)),
        st.tuples(st.just("due"), KEYS, st.integers(0, 20)),
    ),
    max_size=60,
)


@pytest.mark.slow
@given(STEPS)
def test_as_a_plain_map_would_do(steps: list[tuple[str, int, int]]) -> None:
    deadlines: Deadlines[int] = Deadlines()
    model: dict[int, int] = {}
    now_ms = 0
    for act, key, ms in steps:
        if act == "set":
            deadlines.set(key, now_ms + ms)
            model[key] = now_ms + ms
        elif act == "clear":
            deadlines.clear(key)
            model.pop(key, None)
        else:
            now_ms += ms
            came = deadlines.due(now_ms)
            assert set(came) == {key for key, at_ms in model.items() if at_ms <= now_ms}
            times = [model.pop(key) for key in came]
            assert times == sorted(times)
        assert {key: deadlines.get(key) for key in range(6)} == {k: model.get(k) for k in range(6)}
        if model:
            assert deadlines.wake_ms is not None and deadlines.wake_ms <= min(model.values())


def test_the_earliest_comes_first() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("moved", 1)
    deadlines.set("moved", 30)
    deadlines.set("second", 20)
    deadlines.set("first", 10)
    assert deadlines.due(40) == ["first", "second", "moved"]
    assert deadlines.wake_ms is None


def test_what_was_cleared_takes_no_room() -> None:
    deadlines: Deadlines[int] = Deadlines()
    for number in range(10_000):
        deadlines.set(number, 1_000_000)
        deadlines.clear(number)
    assert len(deadlines._heap) <= STALE_MAX + 1
    assert len(deadlines._queued_ms) <= STALE_MAX + 1


def test_of_many_only_those_that_come_are_looked_at() -> None:
    compared = 0

    class Time(int):
        def __lt__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) < other

        def __le__(self, other: int) -> bool:
            nonlocal compared
            compared += 1
            return int(self) <= other

    deadlines: Deadlines[int] = Deadlines()
    for number in range(10_000):
        deadlines.set(number, Time(number))
    compared = 0
    for now_ms in range(100):
        assert deadlines.due(now_ms) == [now_ms]
    assert compared < 100 * 40  # the heap is some 14 levels high
