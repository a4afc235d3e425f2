"""Error answers to clients while the coordination store is unreachable."""

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
    """Turn SessionExpired and CoordinationLost into the error code that Kafka answers.

    Raises: Refused (UNKNOWN_SERVER_ERROR).
    """
    try:
        yield
    except (SessionExpired, CoordinationLost) as error:
        raise Refused(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"the coordination store is out of reach: {error}"
        ) from None


def needs_store(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Wrap a coroutine function in `refused_without_store`."""

    @functools.wraps(function)
    async def guarded(*arguments: P.args, **named: P.kwargs) -> T:
        with refused_without_store():
            return await function(*arguments, **named)

    return guarded
