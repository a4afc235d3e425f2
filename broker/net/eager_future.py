"""An answer that becomes known later, and is then sent immediately.

A waiter of an ordinary future gets the result one turn of the loop later. That turn costs as much
as a small answer.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class EagerFuture(asyncio.Future[T], Generic[T]):
    """A future whose `on_end`, if set, is called immediately instead of one turn later.

    `finish` and `fail` are called only where answers may be sent: in a turn of their own.
    """

    on_end: Callable[[asyncio.Future[T]], None] | None = None
    on_late: Callable[[asyncio.Future[T]], None] | None = None
    """Called when the answer may not wait any longer, whether it is known by then or not."""

    def finish(self, result: T) -> None:
        """Set the answer and have it sent."""
        self.set_result(result)
        self.tell()

    def fail(self, error: Exception) -> None:
        """Fail with `error` instead of an answer."""
        self.set_exception(error)
        self.tell()

    def tell(self) -> None:
        """Have the answer sent."""
        if self.on_end is not None:
            self.on_end(self)


class SettledAnswers:
    """Answers that became known during other work, where nothing may be sent.

    They are sent in the next turn of the loop, or earlier if `send` is called.
    """

    def __init__(self) -> None:
        self._settled: list[EagerFuture[Any]] = []

    def add(self, answer: EagerFuture[T], result: T) -> None:
        """Set the result of an answer, to be sent later."""
        answer.set_result(result)
        if not self._settled:
            answer.get_loop().call_soon(self.send)
        self._settled.append(answer)

    def send(self) -> None:
        """Send the answers, as sending is possible now."""
        settled, self._settled = self._settled, []
        for answer in settled:
            answer.tell()
