import asyncio
from collections.abc import Iterator
from functools import partial

import pytest

from tests.support import awaiting
from tests.support.waiting import NotYet, until


def test_what_was_found_is_returned() -> None:
    looks: Iterator[object] = iter((0, [], None, "found"))
    assert until(lambda: next(looks)) == "found"


def test_a_deadline_that_passes_says_what_is_missing() -> None:
    with pytest.raises(NotYet, match=r"^not after 0.01 s: it is there$"):
        until(lambda: False, "it is there", 0.01)
    with pytest.raises(NotYet, match=r"not after 0.01 s: 2 of 3"):
        until(lambda: False, lambda: "2 of 3", timeout_s=0.01)
    with pytest.raises(NotYet, match=r"not after 0 s: until\(lambda: 1 > 2, "):
        until(lambda: 1 > 2, timeout_s=0)
    with pytest.raises(NotYet, match=r"functools.partial\(<class 'int'>, '0'\)"):
        until(partial(int, "0"), timeout_s=0)


@pytest.mark.slow
def test_the_clock_may_be_another() -> None:
    ticks = iter(range(10))
    with pytest.raises(NotYet):
        until(lambda: False, timeout_s=8, clock=lambda: float(next(ticks)))
    assert next(ticks, None) is None


def test_others_go_on_while_a_coroutine_waits() -> None:
    async def main() -> None:
        told: list[str] = []

        async def is_told() -> bool:
            return bool(told)

        asyncio.get_running_loop().call_soon(told.append, "news")
        await awaiting.until(lambda: told)
        await awaiting.until(is_told)
        with pytest.raises(NotYet, match=r"not after 0.01 s: more is told"):
            await awaiting.until(lambda: len(told) > 1, "more is told", 0.01)

        async def never() -> bool:
            return False

        with pytest.raises(NotYet, match="async def never"):
            await awaiting.until(never, timeout_s=0)

    asyncio.run(main())
