"""Answers to requests of which a part is refused: the handler answers the rest."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, cast

from odradek.protocol.schema import Message

from . import Answer

MessageT = TypeVar("MessageT", bound=Message)


def completed(answer: Answer, complete: Callable[[MessageT], Any]) -> Answer:
    """The answer of a handler, which `complete` changes once it is known."""
    if answer is None:
        return None
    if isinstance(answer, Message):
        complete(cast(MessageT, answer))
        return answer
    return _later(answer, complete)


async def _later(
    answer: Awaitable[Message | None], complete: Callable[[MessageT], Any]
) -> Message | None:
    response = await answer
    if response is not None:
        complete(cast(MessageT, response))
    return response
