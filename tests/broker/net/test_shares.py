"""Shares: whoever has used the least time of the loop is served first."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.net.shares import CALM_NS, HALF_LIFE_NS, LATE_S, TURN_NS, WATCH_S, Shares
from tests.support.awaiting import pass_over, turns

US = 1000


class Clock:
    """Moves on only while somebody is served."""

    def __init__(self) -> None:
        self.now_ns = 0

    def __call__(self) -> int:
        return self.now_ns


class Client:
    """Someone with requests, each of which costs the same."""

    def __init__(self, name: str, cost_ns: int, shares: Shares, clock: Clock) -> None:
        self.rested_ns = shares.last_rested_ns
        self.name = name
        self.cost_ns = cost_ns
        self.requests = 0
        self._shares = shares
        self._clock = clock
        self.on_served: Callable[[], None] = lambda: None

    def ask(self, count: int = 1) -> None:
        """Send more requests."""
        self.requests += count
        if self.requests == count:
            self._shares.enter(self)

    def on_turn(self) -> None:
        self._clock.now_ns += self.cost_ns
        self.requests -= 1
        self.on_served()
        if self.requests:
            self._shares.enter(self)


class House:
    """Clients with one loop, and who was served when."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.shares = Shares(self.clock)
        self.served: list[str] = []

    def client(self, name: str, cost_ns: int) -> Client:
        client = Client(name, cost_ns, self.shares, self.clock)
        client.on_served = lambda: self.served.append(name)
        return client

    @staticmethod
    def run(main: Callable[[], Awaitable[None]]) -> None:
        asyncio.run(main())  # type: ignore[arg-type]  # they are coroutines


def test_at_once_while_there_is_little_to_do() -> None:
    house = House()
    client = house.client("a", 100 * US)

    async def main() -> None:
        for _ in range(4):
            client.ask()
        assert house.served == ["a"] * 4

    house.run(main)


def test_the_loop_looks_after_a_turn() -> None:
    """What has come by then goes before the rest of what came first."""
    house = House()
    busy, quiet = house.client("busy", TURN_NS), house.client("quiet", TURN_NS)

    async def main() -> None:
        quiet.ask()
        asyncio.get_running_loop().call_soon(busy.ask, 9)
        asyncio.get_running_loop().call_soon(quiet.ask)
        await turns(20)

    house.run(main)
    assert house.served == ["quiet", "busy", "quiet", *["busy"] * 8]


def test_who_asks_for_little_waits_for_one_other() -> None:
    """Forty that always have more to ask; one asks again a while after each answer."""
    house = House()
    busy = [house.client(f"busy {number}", 100 * US) for number in range(40)]
    quiet = house.client("quiet", 50 * US)
    waited_ns: list[int] = []
    asked_ns = 0

    def on_served() -> None:
        waited_ns.append(house.clock.now_ns - asked_ns)

    quiet.on_served = on_served

    async def main() -> None:
        nonlocal asked_ns
        for client in busy:
            client.ask(1000)
        for _ in range(50):
            await turns(10)
            asked_ns = house.clock.now_ns
            quiet.ask()
            await turns(10)
            assert not quiet.requests

    house.run(main)
    assert max(waited_ns) <= TURN_NS + 100 * US + quiet.cost_ns


def test_nobody_saves_up_much_time() -> None:
    """Who was silent is ahead for less than the time in which all is forgotten."""
    house = House()
    busy, late = house.client("busy", TURN_NS), house.client("late", TURN_NS)

    async def main() -> None:
        busy.ask(100_000)
        await turns(2000)  # a second
        house.served.clear()
        late.ask(100_000)
        await turns(HALF_LIFE_NS // TURN_NS)
        assert Counter(house.served)["late"] > Counter(house.served)["busy"]
        house.served.clear()
        await turns(100)

    house.run(main)
    counts = Counter(house.served)
    assert abs(counts["busy"] - counts["late"]) <= 2


def test_newcomers_come_last() -> None:
    """Else who connects for each request would get everything."""
    house = House()
    old = house.client("old", 100 * US)

    async def main() -> None:
        house.client("busy", TURN_NS).ask(5)
        await turns(4)
        house.served.clear()
        for number in range(20):
            house.client(f"new {number}", 100 * US).ask()
        old.ask()
        await turns(10)

    house.run(main)
    assert house.served[0] == "old"


@settings(max_examples=50, deadline=None)
@given(costs=st.lists(st.integers(1 * US, 2000 * US), min_size=2, max_size=8))
def test_all_get_the_same_time(costs: list[int]) -> None:
    """However long their requests take, up to one request and one turn."""
    house = House()
    clients = [house.client(str(number), cost_ns) for number, cost_ns in enumerate(costs)]

    async def main() -> None:
        for client in clients:
            client.ask(1_000_000)
        await turns(60)

    house.run(main)
    counts = Counter(house.served)
    used_ns = [counts[client.name] * client.cost_ns for client in clients]
    assert max(used_ns) - min(used_ns) <= max(costs) + TURN_NS + max(costs)


def test_a_bug_stops_nobody_else() -> None:
    house = House()
    bad, good = house.client("bad", US), house.client("good", TURN_NS)

    def fail() -> None:
        raise ArithmeticError

    bad.on_served = fail

    async def main() -> None:
        with pytest.raises(ArithmeticError):
            bad.ask()
        good.ask(3)
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        house.shares.enter(bad)
        await turns(10)
        good.ask()

    house.run(main)
    assert house.served == ["good"] * 4


def test_who_waits_does_so_even_if_nobody_else_does() -> None:
    house = House()
    flood = house.client("flood", TURN_NS)

    async def main() -> None:
        flood.requests = 2
        house.shares.wait(flood)
        assert not house.served
        await turns(2)
        assert house.served == ["flood"]
        await turns(2)
        assert house.served == ["flood"] * 2

    house.run(main)


class Flood:
    """Always has more to do than fits into a turn."""

    def __init__(self, shares: Shares) -> None:
        self.rested_ns = 0.0
        self.turns = 0
        self._shares = shares

    def on_turn(self) -> None:
        self.turns += 1
        if self.turns < 9:
            self._shares.wait(self)


def test_who_waits_does_so_even_if_the_clock_stands_still() -> None:
    """As in a simulation."""
    house = House()
    flood = Flood(house.shares)

    async def main() -> None:
        house.shares.wait(flood)
        for count in range(1, 6):
            await turns(1)
            assert flood.turns <= count
        assert flood.turns

    house.run(main)


def test_turns_begin_when_the_loop_is_late_and_end_when_nobody_waits() -> None:
    house = House()
    client = house.client("a", US)

    async def main() -> None:
        watching = asyncio.create_task(house.shares.watch())
        await turns(1)
        await pass_over(WATCH_S + 2 * LATE_S)
        watching.cancel()
        assert house.shares.take_turns
        house.clock.now_ns += CALM_NS // 2
        client.ask()
        assert house.shares.take_turns
        house.clock.now_ns += CALM_NS
        client.ask()
        assert not house.shares.take_turns

    house.run(main)


def test_turns_do_not_end_while_somebody_waits() -> None:
    house = House()
    clients = [house.client(str(number), TURN_NS) for number in range(2)]

    async def main() -> None:
        house.shares.begin_turns()
        for client in clients:
            client.ask(1_000_000)
        await turns(4 * CALM_NS // TURN_NS)
        assert house.clock.now_ns > 3 * CALM_NS
        assert house.shares.take_turns

    house.run(main)
