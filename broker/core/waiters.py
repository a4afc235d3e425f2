"""Who waits for something to happen leaves a callback."""

from collections.abc import Callable

Waiter = Callable[[], None]


class Waiters(dict[Waiter, None]):
    """Callbacks, told in the order in which they came: that of a set changes from run to run."""

    __slots__ = ()

    def add(self, waiter: Waiter) -> None:
        """Tell it until it is discarded."""
        self[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """Tell it no more, if it was told at all."""
        self.pop(waiter, None)

    def wake(self) -> None:
        """Tell all of them."""
        for waiter in list(self):
            # One that was told may append, and so wake the others, who then may wait no longer.
            if waiter in self:
                waiter()
