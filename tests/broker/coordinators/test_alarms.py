"""Many deadlines on one timer."""

import asyncio
from itertools import pairwise

from odradek.broker.coordinators.alarms import TURN_KEYS_MAX, Alarms
from odradek.broker.runtime import Runtime
from tests.broker.running import LeapingClock
from tests.support.awaiting import until


class Bell:
    """Alarms on a clock that can be moved, and what rang."""

    def __init__(self) -> None:
        runtime = Runtime.system()
        self.clock = LeapingClock(runtime)
        self.start_ms = self.clock.now_ms()
        self.rang: list[str] = []
        self.alarms: Alarms[str] = Alarms(self.clock, self.rang.append)

    def set(self, key: str, after_ms: int) -> None:
        """Set an alarm for a time after the start: its order does not depend on how fast we run."""
        self.alarms.set(key, self.start_ms + after_ms)


def test_each_rings_once_in_the_order_of_time() -> None:
    async def main() -> None:
        bell = Bell()
        bell.set("late", 30)
        bell.set("soon", 5)
        bell.set("sooner", 1)
        await until(lambda: len(bell.rang) == 3)
        assert bell.rang == ["sooner", "soon", "late"]
        await asyncio.sleep(0)
        assert len(bell.rang) == 3

    asyncio.run(main())


def test_only_an_earlier_time_counts() -> None:
    async def main() -> None:
        bell = Bell()
        bell.set("a", 3_600_000)
        bell.set("a", 7_200_000)
        bell.set("a", 5)
        bell.set("b", 10)
        bell.set("b", 3_600_000)
        await until(lambda: bell.rang == ["a", "b"])
        bell.set("a", 1)  # it may be set again
        await until(lambda: bell.rang == ["a", "b", "a"])

    asyncio.run(main())


def test_closed_alarms_ring_nobody() -> None:
    async def main() -> None:
        closed, other = Bell(), Bell()
        closed.set("before", 1)
        closed.alarms.close()
        closed.set("after", 2)
        other.set("last", 5)
        await until(lambda: other.rang == ["last"])
        assert not closed.rang

    asyncio.run(main())


def test_one_that_fails_does_not_silence_the_others() -> None:
    async def main() -> None:
        bell = Bell()
        failures: list[object] = []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: failures.append(type(context["exception"]))
        )

        def ring(key: str) -> None:
            bell.rang.append(key)
            assert key != "broken"

        alarms = Alarms(bell.clock, ring)
        now_ms = bell.clock.now_ms()
        alarms.set("broken", now_ms)
        alarms.set("whole", now_ms)
        await until(lambda: bell.rang == ["broken", "whole"])
        assert failures == [AssertionError]

    asyncio.run(main())


def test_others_get_their_turn_while_many_ring() -> None:
    async def main() -> None:
        bell = Bell()
        for number in range(3 * TURN_KEYS_MAX):
            bell.set(str(number), 0)
        seen = []
        while len(bell.rang) < 3 * TURN_KEYS_MAX:
            await asyncio.sleep(0)
            seen.append(len(bell.rang))
        assert max(after - before for before, after in pairwise([0, *seen])) == TURN_KEYS_MAX

    asyncio.run(main())
