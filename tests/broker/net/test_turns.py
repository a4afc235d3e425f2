"""Turns: work that others wait for is done one piece in each round of the loop."""

import asyncio

from odradek.broker.net.turns import Turns


def test_handshakes_take_turns() -> None:
    seen: list[int] = []

    async def main() -> None:
        turns = Turns()
        for number in range(3):
            turns.add(lambda number=number: seen.append(number))  # type: ignore[misc]
        for count in range(4):
            assert len(seen) == count
            await asyncio.sleep(0)
            if count == 1:
                turns.add(lambda: seen.append(3))
        await asyncio.sleep(0)

    asyncio.run(main())
    assert seen == [0, 1, 2, 3]
