"""Which questions about transactions go to a coordinator in one request."""

import asyncio

from odradek.broker.core.effects import Producer
from odradek.broker.transactions.verifier import QUESTIONS_MAX, Question, Waiting, take_questions
from odradek.protocol.errors import ErrorCode

OLD, NEW, OTHER = Producer(1, 0), Producer(1, 1), Producer(2, 0)


def take_all(*questions: Question) -> list[list[Question]]:
    """The questions of each request, until none is left."""

    async def take() -> list[list[Question]]:
        loop = asyncio.get_running_loop()
        answers: list[asyncio.Future[ErrorCode]] = [loop.create_future() for _ in questions]
        queue: list[Waiting] = list(zip(questions, answers, strict=True))
        requests = []
        while queue:
            requests.append([question for question, _ in take_questions(queue)])
        return requests

    return asyncio.run(take())


def test_producers_of_several_ids_go_together() -> None:
    questions = [Question("x", OLD, ("t", 0)), Question("y", OTHER, ("t", 0))]
    assert take_all(*questions, Question("x", OLD, ("t", 1))) == [
        [*questions, Question("x", OLD, ("t", 1))]
    ]


def test_two_producers_of_one_id_do_not() -> None:
    """The answer to the older epoch is not taken for the answer to the newer one."""
    old, new = Question("x", OLD, ("t", 0)), Question("x", NEW, ("t", 0))
    another = Question("y", OTHER, ("t", 0))
    assert take_all(old, new, another, old) == [[old, another, old], [new]]


def test_a_request_is_bounded() -> None:
    questions = [Question("x", OLD, ("t", number)) for number in range(QUESTIONS_MAX + 1)]
    assert take_all(*questions) == [questions[:-1], questions[-1:]]
