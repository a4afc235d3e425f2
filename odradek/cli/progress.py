"""A progress bar on stderr: on a terminal only, and only if rich is installed."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Advance(Protocol):
    """Called with the size of each step: how many, and how many bytes if that is known."""

    def __call__(self, count: int, size_bytes: int = 0) -> None:
        """Advance."""


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
        from rich.filesize import decimal
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
        from rich.progress import TimeElapsedColumn as Elapsed
        from rich.progress import TimeRemainingColumn as Remaining
    except ImportError:
        yield _nothing
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[size]}  {task.fields[rate]}"),
        Elapsed(),
        Remaining(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total, size="", rate="")
        done_bytes = 0

        def advance(count: int, size_bytes: int = 0) -> None:
            nonlocal done_bytes
            done_bytes += size_bytes
            speed = bar.tasks[0].speed
            bar.update(
                task,
                advance=count,
                size=decimal(done_bytes) if done_bytes else "",
                rate=f"{speed:,.0f}/s" if speed else "",
            )

        yield advance


def _nothing(count: int, size_bytes: int = 0) -> None:
    """Advance no bar, as there is none."""
