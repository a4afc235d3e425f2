"""Who waits for something to happen leaves a callback."""

from collections.abc import Callable

Waiter = Callable[[], None]


def wake(waiters: set[Waiter]) -> None:
    """Tell all of them."""
    for waiter in list(waiters):
        # One that was told may append, and so wake the others, who then may wait no longer.
        if waiter in waiters:
            waiter()
