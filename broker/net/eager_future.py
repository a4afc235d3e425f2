"""An answer that comes later, and is sent at once when it comes.

What waits for an ordinary future hears of its result a turn of the loop later, and the turn costs
as much as a small answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class EagerFuture(asyncio.Future[T], Generic[T]):
    """A future whose `on_end`, if there is one, is called at once instead of a turn later.

    `finish` and `fail` are only called where answers may be sent: in a turn of their own.
    """

    on_end: Callable[[asyncio.Future[T]], None] | None = None
    on_late: Callable[[asyncio.Future[T]], None] | None = None
    """Called when it may not be owed any longer, whether it is known by now or not."""

    def finish(self, result: T) -> None:
        """The answer is there."""
        self.set_result(result)
        self.tell()

    def fail(self, error: Exception) -> None:
        """There is none."""
        self.set_exception(error)
        self.tell()

    def tell(self) -> None:
        """Have it sent."""
        if self.on_end is not None:
            self.on_end(self)


class SettledAnswers:
    """Answers that became known in the midst of something else, where nothing may be sent.

    They are sent in the next turn of the loop, or before that wherever somebody says so.
    """

    def __init__(self) -> None:
        self._settled: list[EagerFuture[Any]] = []

    def add(self, answer: EagerFuture[T], result: T) -> None:
        """This is the result."""
        answer.set_result(result)
        if not self._settled:
            answer.get_loop().call_soon(self.send)
        self._settled.append(answer)

    def send(self) -> None:
        """Nothing stands in the way of sending now."""
        settled, self._settled = self._settled, []
        for answer in settled:
            answer.tell()
