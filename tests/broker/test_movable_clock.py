"""The clock that tests move, on the simulator's virtual time."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.broker import movable_clock
from odradek.broker.coordinators.alarms import TURN_KEYS_MAX, Alarms
from odradek.broker.movable_clock import MovableClock, RoundsLast
from tests.sim.loop import SimLoop, simulate
from tests.sim.runtime import WALL_MS_START, SimClock

MINUTE_MS = 60_000


def on_clock(test: Callable[[MovableClock], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run `test(clock)` in virtual time."""

    def run() -> None:
        async def main(loop: SimLoop) -> None:
            await test(MovableClock(SimClock(loop)))

        simulate(main, 1)

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@on_clock
async def test_advance_moves_timers_and_the_wall_clock_but_not_the_machines(
    clock: MovableClock,
) -> None:
    await clock.advance(MINUTE_MS)
    assert clock.now_ms() < 1000 <= MINUTE_MS <= clock.timer_ms() < MINUTE_MS + 1000
    assert WALL_MS_START + MINUTE_MS <= clock.wall_ms() < WALL_MS_START + MINUTE_MS + 1000
    assert clock.ahead_ms == MINUTE_MS
    await asyncio.sleep(5)
    assert clock.timer_ms() >= MINUTE_MS + 5000


@on_clock
async def test_due_timers_are_called_in_the_order_of_time_before_advance_returns(
    clock: MovableClock,
) -> None:
    called: list[str] = []
    start_ms = clock.timer_ms()
    clock.call_at(start_ms + 30_000, lambda: called.append("late"))
    clock.call_at(start_ms + 10_000, lambda: called.append("early"))
    clock.call_at(start_ms + 61_000, lambda: called.append("not yet"))
    await clock.advance(MINUTE_MS)
    assert called == ["early", "late"]
    await asyncio.sleep(2)
    assert called == ["early", "late", "not yet"]


@on_clock
async def test_due_timers_come_before_what_the_loop_has_read_already(clock: MovableClock) -> None:
    """A heartbeat, for example: the member's session has ended before it."""
    happened: list[str] = []
    clock.call_at(clock.timer_ms() + 1000, lambda: happened.append("session ended"))
    asyncio.get_running_loop().call_soon(lambda: happened.append("heartbeat"))
    await clock.advance(MINUTE_MS)
    assert happened == ["session ended", "heartbeat"]


@on_clock
async def test_alarms_of_many_come_before_it_too(clock: MovableClock) -> None:
    happened: list[object] = []
    alarms = Alarms[int](clock, happened.append)
    for member in range(5 * TURN_KEYS_MAX):
        alarms.set(member, clock.timer_ms() + 1000)
    asyncio.get_running_loop().call_soon(lambda: happened.append("heartbeat"))
    await clock.advance(MINUTE_MS)
    assert happened == [*range(5 * TURN_KEYS_MAX), "heartbeat"]


@on_clock
async def test_a_timer_that_a_timer_sets_counts_from_the_new_time(clock: MovableClock) -> None:
    called: list[str] = []

    def ring() -> None:
        called.append("first")
        clock.call_at(clock.timer_ms(), lambda: called.append("at once"))
        clock.call_at(clock.timer_ms() + 10_000, lambda: called.append("later"))

    clock.call_at(clock.timer_ms() + 1000, ring)
    await clock.advance(MINUTE_MS)
    assert called == ["first", "at once"]
    await clock.advance(10_000)
    assert called == ["first", "at once", "later"]


@on_clock
async def test_a_timer_that_is_cancelled_by_an_earlier_one_is_not_called(
    clock: MovableClock,
) -> None:
    called: list[str] = []
    late = clock.call_at(clock.timer_ms() + 2000, lambda: called.append("late"))
    clock.call_at(clock.timer_ms() + 1000, late.cancel)
    await clock.advance(MINUTE_MS)
    assert not called
    late.cancel()


@on_clock
async def test_a_timer_that_fails_does_not_silence_the_others(clock: MovableClock) -> None:
    called: list[str] = []
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _loop, context: failures.append(type(context["exception"]))
    )
    clock.call_at(clock.timer_ms() + 1000, lambda: called.remove("nothing"))
    clock.call_at(clock.timer_ms() + 1000, lambda: called.append("next"))
    await clock.advance(MINUTE_MS)
    assert (called, failures) == (["next"], [ValueError])


@on_clock
async def test_frozen_time_moves_by_advance_only(clock: MovableClock) -> None:
    called: list[int] = []
    clock.freeze()
    timer_ms, wall_ms = clock.timer_ms(), clock.wall_ms()
    clock.call_at(timer_ms, lambda: called.append(0))  # due already
    clock.call_at(timer_ms + 10_000, lambda: called.append(clock.timer_ms()))
    await asyncio.sleep(3600)
    assert called.pop() == 0
    clock.freeze()
    assert (clock.timer_ms(), clock.wall_ms()) == (timer_ms, wall_ms)
    await clock.advance(9_999)
    assert not called
    await clock.advance(1)
    assert called == [timer_ms + 10_000]
    assert clock.wall_ms() == wall_ms + 10_000


@on_clock
async def test_resumed_time_goes_on_from_where_it_stood(clock: MovableClock) -> None:
    called: list[str] = []
    clock.freeze()
    timer_ms, wall_ms = clock.timer_ms(), clock.wall_ms()
    clock.call_at(timer_ms + 10_000, lambda: called.append("due"))
    await asyncio.sleep(3600)
    clock.resume()
    clock.resume()
    assert timer_ms <= clock.timer_ms() <= timer_ms + 1
    assert wall_ms <= clock.wall_ms() <= wall_ms + 1
    assert clock.ahead_ms < -3_599_000
    await asyncio.sleep(9.9)
    assert not called
    await asyncio.sleep(0.2)
    assert called == ["due"]


@on_clock
async def test_advance_returns_after_the_rounds_that_became_due(clock: MovableClock) -> None:
    rounds: list[str] = []

    async def work(name: str, every_ms: int) -> None:
        while True:
            await clock.sleep(every_ms)
            await asyncio.sleep(1)  # a disk
            rounds.append(name)

    tasks = [
        asyncio.create_task(work("minutely", MINUTE_MS)),
        asyncio.create_task(work("hourly", 60 * MINUTE_MS)),
    ]
    await asyncio.sleep(0)
    await clock.advance(30 * MINUTE_MS)
    assert rounds == ["minutely"], "one round, however long the time"
    await clock.advance(30 * MINUTE_MS)
    assert sorted(rounds) == ["hourly", "minutely", "minutely"]
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    await clock.advance(60 * MINUTE_MS)
    assert len(rounds) == 3


@on_clock
async def test_a_task_that_ends_has_ended_its_round(clock: MovableClock) -> None:
    async def pause() -> None:
        await clock.sleep(1000)

    async def fail() -> None:
        await clock.sleep(1000)
        raise ZeroDivisionError

    tasks = [asyncio.create_task(pause()), asyncio.create_task(fail())]
    await asyncio.sleep(0)
    await clock.advance(1000)
    done, _ = await asyncio.wait(tasks)
    assert len(done) == 2
    assert isinstance(tasks[1].exception(), ZeroDivisionError)


@on_clock
async def test_a_round_without_end_does_not_hold_advance_forever(clock: MovableClock) -> None:
    async def hang() -> None:
        await clock.sleep(1000)
        await asyncio.sleep(3600)

    task = asyncio.create_task(hang())
    await asyncio.sleep(0)
    with pytest.raises(RoundsLast, match="not done after 30 s"):
        await clock.advance(1000)
    assert movable_clock.ROUNDS_WITHIN_S <= asyncio.get_running_loop().time() < 40
    task.cancel()
    await asyncio.wait([task])


@on_clock
async def test_who_listens_is_told_of_each_move(clock: MovableClock) -> None:
    told: list[int] = []
    clock.moves.add(told.append)
    await clock.advance(5)
    clock.freeze()
    await clock.advance(7)
    clock.resume()
    assert told == [5, 7]


@on_clock
async def test_the_wall_clock_is_set_to_the_machines_while_timers_go_on(
    clock: MovableClock,
) -> None:
    called: list[int] = []
    await clock.advance(MINUTE_MS)
    clock.freeze()
    before_ms = clock.timer_ms()
    clock.call_at(before_ms + MINUTE_MS, lambda: called.append(clock.ahead_ms))
    clock.set_wall()
    assert not clock.is_frozen
    assert clock.ahead_ms == 0
    assert clock.timer_ms() >= before_ms
    await clock.advance(MINUTE_MS)
    assert called == [MINUTE_MS]


@on_clock
async def test_time_does_not_go_back(clock: MovableClock) -> None:
    with pytest.raises(ValueError, match="time does not go back: -1 ms"):
        await clock.advance(-1)
    assert clock.ahead_ms == 0


@on_clock
async def test_it_goes_ahead_for_a_hundred_years(clock: MovableClock) -> None:
    await clock.advance(movable_clock.AHEAD_MS_MAX)
    with pytest.raises(ValueError, match="more than a hundred years ahead"):
        await clock.advance(1)


STEPS = st.one_of(
    st.tuples(st.just("call"), st.integers(-10, 300)),
    st.tuples(st.just("cancel"), st.integers(0, 20)),
    st.tuples(st.just("advance"), st.integers(0, 200)),
    st.tuples(st.just("pass"), st.integers(0, 200)),
    st.tuples(st.just("freeze"), st.just(0)),
    st.tuples(st.just("resume"), st.just(0)),
)


@pytest.mark.slow
@given(st.lists(STEPS, max_size=30))
def test_each_timer_is_called_once_when_its_time_has_come(steps: list[tuple[str, int]]) -> None:
    async def main(loop: SimLoop) -> None:
        clock = MovableClock(SimClock(loop))
        wall_ahead_ms = clock.wall_ms() - clock.timer_ms()
        timers: list[Any] = []
        called: dict[int, int] = {}
        cancelled: set[int] = set()
        for what, value in steps:
            before_ms = clock.timer_ms()
            match what:
                case "call":
                    number = len(timers)

                    def ring(number: int = number) -> None:
                        assert number not in called
                        called[number] = clock.timer_ms()

                    timers.append(clock.call_at(before_ms + value, ring))
                case "cancel" if value < len(timers):
                    timers[value].cancel()
                    cancelled |= {value} - called.keys()
                case "advance":
                    await clock.advance(value)
                    assert clock.timer_ms() >= before_ms + value
                case "pass":
                    await asyncio.sleep(value / 1000)
                case "freeze":
                    clock.freeze()
                case "resume":
                    clock.resume()
            await asyncio.sleep(0.001)
            assert clock.timer_ms() >= before_ms
            assert abs(clock.wall_ms() - clock.timer_ms() - wall_ahead_ms) <= 1
            for number, timer in enumerate(timers):
                if number in called:
                    assert called[number] >= timer.at_ms
                    assert number not in cancelled
                elif number not in cancelled:
                    assert timer.at_ms >= clock.timer_ms()
        for timer in timers:
            timer.cancel()

    simulate(main, 1)
