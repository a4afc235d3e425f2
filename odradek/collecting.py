"""Has Python look for garbage later: what an import makes stays.

To look through that again and again takes a tenth of the time of the imports.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collecting_later() -> Iterator[None]:
    """Switch the collector off, and on again at the end if it was on."""
    was_enabled = gc.isenabled()
    try:  # a Ctrl-C may come right after the next line
        gc.disable()
        yield
    finally:
        if was_enabled:
            gc.enable()
