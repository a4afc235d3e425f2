"""A progress bar on stderr: on a terminal only, and only if rich is installed."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Advance = Callable[[int], None]


@contextmanager
def progress(what: str, *, total: int | None, wanted: bool = True) -> Iterator[Advance]:
    """Show progress up to `total` (None: unknown) during the block.

    Call the result with the size of each step.
    """
    if not wanted or not sys.stderr.isatty() or os.environ.get("CI"):
        yield _nothing
        return
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
    except ImportError:
        yield _nothing
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Elapsed())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda step: bar.advance(task, step)


def _nothing(step: int) -> None:
    """Advance no bar, as there is none."""
