"""What is freed at once, and what is left to the garbage collector."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

from .awaiting import until

T = TypeVar("T")


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Collect now, and then nothing any more until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def objects_of(*kinds: type[T]) -> list[T]:
    """All objects of these kinds that the collector knows.

    Not by isinstance: it asks a weak proxy for its object, which may be gone.
    """
    return [each for each in gc.get_objects() if issubclass(type(each), kinds)]


def count_alive(*kinds: type) -> int:
    """How many objects of these kinds there are."""
    return len(objects_of(*kinds))


@asynccontextmanager
async def nothing_left(*kinds: type) -> AsyncIterator[None]:
    """What is done meanwhile leaves no objects of these kinds to the collector."""
    with nothing_collected():
        before = count_alive(*kinds)
        yield
        await until(lambda: count_alive(*kinds) <= before)
