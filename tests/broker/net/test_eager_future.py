"""Answers that are sent at once, or as soon as nothing stands in the way."""

import asyncio

from odradek.broker.net.eager_future import EagerFuture, SettledAnswers


def test_settled_answers_are_known_at_once_and_sent_when_somebody_says_so() -> None:
    async def main() -> None:
        settled, told = SettledAnswers(), []
        first: EagerFuture[int] = EagerFuture()
        second: EagerFuture[int] = EagerFuture()
        # Who is told of the first may send the second along: it has to be there.
        first.on_end = lambda _: told.append((first.result(), second.result()))
        settled.add(first, 1)
        settled.add(second, 2)
        assert not told
        settled.send()
        assert told == [(1, 2)]
        await asyncio.sleep(0)
        assert told == [(1, 2)]

    asyncio.run(main())


def test_settled_answers_are_sent_in_the_next_turn_if_nobody_says_so() -> None:
    async def main() -> None:
        settled = SettledAnswers()
        told: list[object] = []
        for _ in range(2):
            answer: EagerFuture[int] = EagerFuture()
            answer.on_end = told.append
            settled.add(answer, 1)
            assert answer not in told
            await asyncio.sleep(0)
            assert told[-1] is answer

    asyncio.run(main())
