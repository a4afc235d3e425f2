"""What is freed at once, and what is left to the garbage collector."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def nothing_collected() -> Iterator[None]:
    """Collect now, and then nothing any more until the end."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def count_alive(*kinds: type) -> int:
    """How many objects of these kinds there are."""
    return sum(isinstance(each, kinds) for each in gc.get_objects())
