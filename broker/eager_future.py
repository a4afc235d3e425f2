"""An answer that comes later, and is sent at once when it comes.

What waits for an ordinary future hears of its result a turn of the loop later, and the turn costs
as much as a small answer.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class EagerFuture(asyncio.Future[T], Generic[T]):
    """A future whose `on_end`, if there is one, is called at once instead of a turn later.

    `finish` and `fail` are only called where answers may be sent: in a turn of their own.
    """

    on_end: Callable[[asyncio.Future[T]], None] | None = None

    def finish(self, result: T) -> None:
        """The answer is there."""
        self.set_result(result)
        self._tell()

    def fail(self, error: Exception) -> None:
        """There is none."""
        self.set_exception(error)
        self._tell()

    def _tell(self) -> None:
        if self.on_end is not None:
            self.on_end(self)
