"""A coordination store that is out of reach, as clients hear of it."""

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

from odradek.protocol.errors import ErrorCode, Refused

from ..coordination.interface import CoordinationLost, SessionExpired

P = ParamSpec("P")
T = TypeVar("T")


@contextmanager
def refused_without_store() -> Iterator[None]:
    """What needs the store is refused between two sessions, with the code that Kafka has for it.

    Raises: Refused (UNKNOWN_SERVER_ERROR).
    """
    try:
        yield
    except (SessionExpired, CoordinationLost) as error:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordination store is out of reach: {error}"
        ) from None


def needs_store(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Make a coroutine function one of which `refused_without_store` is true."""

    @functools.wraps(function)
    async def guarded(*arguments: P.args, **named: P.kwargs) -> T:
        with refused_without_store():
            return await function(*arguments, **named)

    return guarded
