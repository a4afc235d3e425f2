"""A clock that tests move, so that what takes minutes for clients takes none.

`advance` adds to `timer_ms` and `wall_ms` at once: what lies between is skipped, as by a machine
that was suspended.  A timer that is set by one that was due begins to count from the new time.
`freeze` stops both until `resume`.  `now_ms` is always the machine's.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from .runtime import Clock, Moves

AHEAD_MS_MAX: Final = 100 * 365 * 86_400_000
ROUNDS_WITHIN_S: Final = 30
AT_ONCE_MAX: Final = 10_000
"""How often timers are called before the loop may do something else."""


class RoundsLast(Exception):
    """What became due is still at work."""


class MovableClock(Clock):
    """Moves the clocks of a machine, for all brokers of one event loop."""

    def __init__(self, machine: Clock) -> None:
        self._machine = machine
        self._ahead_ms = 0
        """Of `timer_ms`."""
        self._wall_ahead_ms = 0
        self._frozen: tuple[int, int] | None = None
        """Timer and wall-clock time since `freeze`, as if nothing had been added."""
        self._timers: dict[_Timer, None] = {}
        self._handle: asyncio.TimerHandle | None = None
        self._rounds: dict[asyncio.Task[object], asyncio.Future[None]] = {}
        """The tasks that `sleep` woke, until they sleep again or end."""
        self.moves: Moves = set()

    def now_ms(self) -> int:
        """Milliseconds of the machine's monotonic clock."""
        return self._machine.now_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch, moved."""
        frozen = self._frozen
        return self._wall_ahead_ms + (self._machine.wall_ms() if frozen is None else frozen[1])

    def timer_ms(self) -> int:
        """Milliseconds of the monotonic clock, moved."""
        frozen = self._frozen
        return self._ahead_ms + (self._machine.now_ms() if frozen is None else frozen[0])

    @property
    def is_frozen(self) -> bool:
        """Whether time stands still."""
        return self._frozen is not None

    @property
    def ahead_ms(self) -> int:
        """How far the wall clock is ahead of the machine's; negative after it stood still."""
        return self.wall_ms() - self._machine.wall_ms()

    # -- moving

    async def advance(self, by_ms: int) -> None:
        """Move on; return once every timer that is due was called and no round goes on.

        Raises: ValueError if `by_ms` is negative or leads too far; RoundsLast after
        `ROUNDS_WITHIN_S`.
        """
        if by_ms < 0:
            raise ValueError(f"time does not go back: {by_ms} ms")
        if self._ahead_ms + by_ms > AHEAD_MS_MAX:
            raise ValueError("the clock would be more than a hundred years ahead")
        self._ahead_ms += by_ms
        self._wall_ahead_ms += by_ms
        for move in list(self.moves):
            move(by_ms)
        while self._call_all_due():  # noqa: ASYNC110 - each turn of the loop may set further ones
            await asyncio.sleep(0)
        self._arm()
        await asyncio.sleep(0)  # for those whose sleep has ended
        if self._rounds:
            _, late = await asyncio.wait(self._rounds.values(), timeout=ROUNDS_WITHIN_S)
            if late:
                raise RoundsLast(f"what became due is not done after {ROUNDS_WITHIN_S} s")

    def freeze(self) -> None:
        """Let time stand still, unless it does."""
        if self._frozen is None:
            self._frozen = self._machine.now_ms(), self._machine.wall_ms()
            self._arm()

    def resume(self) -> None:
        """Let time pass again, from where it stood."""
        if self._frozen is not None:
            self._ahead_ms -= self._machine.now_ms() - self._frozen[0]
            self._wall_ahead_ms -= self._machine.wall_ms() - self._frozen[1]
            self._frozen = None
            self._arm()

    def set_wall(self) -> None:
        """Let time pass, and set the wall clock to the machine's, as one may set any.

        Timers go on counting: what a monotonic clock shows does not matter, but it can't go back.
        """
        self.resume()
        self._wall_ahead_ms = 0

    # -- timers

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> "_Timer":
        """Call once `timer_ms` has reached a time, at the earliest in the loop's next turn."""
        timer = _Timer(self, at_ms, callback)
        self._timers[timer] = None
        self._arm()
        return timer

    async def sleep(self, for_ms: int) -> None:
        """Return after a time on `timer_ms`.

        The caller's task works in rounds: one has ended when it sleeps again, or ends itself.
        """
        task = asyncio.current_task()
        assert task is not None
        self._end_round(task)
        awake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        timer = self.call_at(self.timer_ms() + for_ms, lambda: self._begin_round(task, awake))
        try:
            await awake
        finally:
            timer.cancel()

    def forget(self, timer: "_Timer") -> None:
        """Do not call it."""
        if timer in self._timers:
            del self._timers[timer]
            self._arm()

    def _begin_round(self, task: "asyncio.Task[object]", awake: "asyncio.Future[None]") -> None:
        if awake.done():  # the task is cancelled
            return
        awake.set_result(None)
        self._rounds[task] = asyncio.get_running_loop().create_future()
        task.add_done_callback(self._end_round)

    def _end_round(self, task: "asyncio.Task[object]") -> None:
        working = self._rounds.pop(task, None)
        if working is not None:
            task.remove_done_callback(self._end_round)
            if not working.done():  # its waiter may be cancelled
                working.set_result(None)

    def _arm(self) -> None:
        """Wait for the next timer; there are few."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        if not self._timers:
            return
        left_ms = max(0, min(timer.at_ms for timer in self._timers) - self.timer_ms())
        if left_ms == 0 or self._frozen is None:
            loop = asyncio.get_running_loop()
            self._handle = loop.call_later(left_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        self._handle = None
        try:
            self._call_due()
        finally:
            self._arm()

    def _call_all_due(self) -> bool:
        """Call timers until none is due; False: none was.

        The loop does nothing else meanwhile: a heartbeat that it has read must not keep a member
        whose session has ended. Alarms for many members ring in several calls.
        """
        has_called = False
        for _ in range(AT_ONCE_MAX):
            if not self._call_due():
                break
            has_called = True
        return has_called

    def _call_due(self) -> int:
        """Call the timers that are due, in the order of time."""
        now_ms, loop = self.timer_ms(), asyncio.get_running_loop()
        due = sorted((t for t in self._timers if t.at_ms <= now_ms), key=lambda t: t.at_ms)
        for timer in due:
            if timer not in self._timers:  # another one has cancelled it
                continue
            del self._timers[timer]
            try:
                timer.callback()
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:  # noqa: BLE001 - as the loop, which calls the others, too
                message = f"a timer failed: {timer.callback!r}"
                loop.call_exception_handler({"message": message, "exception": error})
        return len(due)


class _Timer:
    """A timer of a movable clock."""

    __slots__ = ("_clock", "at_ms", "callback")

    def __init__(self, clock: MovableClock, at_ms: int, callback: Callable[[], None]) -> None:
        self._clock = clock
        self.at_ms = at_ms
        self.callback = callback

    def cancel(self) -> None:
        """Do not call; may be repeated, also after the call."""
        self._clock.forget(self)
