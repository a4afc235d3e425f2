"""The one way in which tests wait: they look again and again, until a deadline.

In a coroutine it is `awaiting.until`.
"""

import inspect
import time
from collections.abc import Callable
from typing import Final, TypeVar

TIMEOUT_S: Final = 60.0
PAUSE_S_MIN: Final = 0.001
PAUSE_S_MAX: Final = 0.1

T = TypeVar("T")
What = str | Callable[[], object] | None
"""What is waited for, a function that tells how far it is, or None: the condition's own text."""


class NotYet(AssertionError):
    """A deadline has passed; the message says what was still missing."""


def until(
    look: Callable[[], T | None],
    what: What = None,
    timeout_s: float = TIMEOUT_S,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Poll until `look()` gives something true; return that.  Raises: NotYet, and what it raises.

    It looks often at first and seldom later: what comes soon is seen at once, and one that takes
    long is not held up by being asked.
    """
    begin_s = clock()
    while not (found := look()):
        waited_s = clock() - begin_s
        if waited_s > timeout_s:
            raise not_yet(look, what, timeout_s)
        time.sleep(min(max(PAUSE_S_MIN, waited_s / 10), PAUSE_S_MAX))
    return found


def not_yet(look: Callable[[], object], what: What, timeout_s: float) -> NotYet:
    """The error of one that has waited for too long."""
    missing = what() if callable(what) else what or _text_of(look)
    return NotYet(f"not after {timeout_s:g} s: {missing}")


def _text_of(look: Callable[[], object]) -> str:
    try:
        return inspect.getsource(look).strip()
    except (OSError, TypeError):  # it is no function of a file
        return repr(look)
