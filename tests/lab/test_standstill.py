"""Stops of the machine are no time of anybody's, and what is usual is no stop."""

import threading

import pytest

from tests.lab.cuts import BY_NAME, Limits, Times
from tests.lab.standstill import CROWDED_S, LOOK_S, Standstill
from tests.support.waiting import NotYet, until


class Clock:
    """Goes on when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.asked = threading.Event()

    def __call__(self) -> float:
        self.asked.set()
        return self.now_s


def test_what_is_usual_is_no_stop() -> None:
    clock = Clock()
    machine = Standstill(clock)
    for _ in range(50):
        clock.now_s += LOOK_S + CROWDED_S
        machine.look()
    assert machine.own_s() == pytest.approx(clock.now_s)
    assert machine.longest_s == pytest.approx(LOOK_S + CROWDED_S)


def test_stops_do_not_count() -> None:
    clock = Clock()
    machine = Standstill(clock)
    begin_s = machine.own_s()
    for stop_s in (5.0, 2.0):
        clock.now_s += LOOK_S + CROWDED_S + stop_s
        machine.look()
    assert machine.own_s() - begin_s == pytest.approx(2 * (LOOK_S + CROWDED_S))
    assert machine.longest_s == pytest.approx(LOOK_S + CROWDED_S + 5)


def test_who_wakes_first_knows_of_the_stop() -> None:
    """And the clock never goes back, neither in a stop nor when that is noted."""
    clock = Clock()
    machine = Standstill(clock)
    times_s = [machine.own_s()]
    for _ in range(100):
        clock.now_s += 0.05
        times_s.append(machine.own_s())
    assert machine.longest_s == pytest.approx(5)
    machine.look()
    times_s.append(machine.own_s())
    assert times_s == sorted(times_s)
    assert times_s[-1] - times_s[0] == pytest.approx(LOOK_S + CROWDED_S)


def test_it_looks_by_itself() -> None:
    clock = Clock()
    with Standstill(clock) as machine:
        for _ in range(3):
            clock.asked.clear()
            assert clock.asked.wait(30)
        assert machine.own_s() == clock.now_s


def test_who_waits_by_that_clock_waits_longer() -> None:
    clock = Clock()
    machine = Standstill(clock)
    looks = 0

    def stop_once() -> bool:
        nonlocal looks
        looks += 1
        clock.now_s += 20.0 if looks == 1 else 0.0
        machine.look()
        return looks == 2

    assert until(stop_once, "it comes", 1.0, machine.own_s)
    looks = 0
    with pytest.raises(NotYet, match="not after 1 s: it comes"):
        until(stop_once, "it comes", 1.0, clock)


def times(kind: str, *, longest_s: float, has_moved: bool) -> Times:
    """Of a cut after which all went as it has to, unless others lead."""
    return Times(
        BY_NAME[kind],
        lasted_s=15.0,
        hits=1,
        shrunk_s=9.0,
        led_s=5.0 if BY_NAME[kind].leads else None,
        controlled_s=None,
        full_s=3.0,
        acknowledged=100,
        has_moved=has_moved,
        pause_s=1.0,
        longest_stop_s=longest_s,
    )


def test_a_long_stop_may_move_leaders() -> None:
    assert times("follower", longest_s=0.1, has_moved=False).wrong(Limits()) == []
    wrong = times("follower", longest_s=0.1, has_moved=True).wrong(Limits())
    assert wrong == ["follower: others lead"]
    assert times("follower", longest_s=3.0, has_moved=True).wrong(Limits()) == []
    late = times("follower", longest_s=3.0, has_moved=True)._replace(shrunk_s=11.5)
    assert late.wrong(Limits()) == ["follower: the in-sync sets shrank after 11.5 s"]
