"""A waiter for an event leaves a callback."""

from collections.abc import Callable

Waiter = Callable[[], None]


class Waiters(dict[Waiter, None]):
    """Callbacks, called in the order in which they were added; a set's order changes from run to
    run."""

    __slots__ = ()

    def add(self, waiter: Waiter) -> None:
        """Call it until it is discarded."""
        self[waiter] = None

    def discard(self, waiter: Waiter) -> None:
        """Stop calling it, if it was added at all."""
        self.pop(waiter, None)

    def wake(self) -> None:
        """Call all of them."""
        for waiter in list(self):
            # A callback may append, and so wake others, which may then no longer be waiting.
            if waiter in self:
                waiter()
