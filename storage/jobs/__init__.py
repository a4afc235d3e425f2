"""Work on a log's files that is too heavy for the event loop, in other processes (`__main__.py`).

A job is a module here with `run(arguments, files, report)`. It gets JSON, reads and writes files,
calls `report` with the bytes done so far every few megabytes, and returns JSON. It never touches
files that the broker writes to: the broker takes over the result on its event loop.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Final

from ..files import FileSystem

Arguments = Mapping[str, Any]
Result = dict[str, Any]
Report = Callable[[int], None]

JOBS: Final = frozenset({"clean", "recover", "scrub"})


def run_job(name: str, arguments: Arguments, files: FileSystem, report: Report) -> Result:
    """Run a job in this process.  Raises: StorageError, ValueError (no such job)."""
    if name not in JOBS:
        raise ValueError(f"there is no job named {name}")
    run: Callable[[Arguments, FileSystem, Report], Result]
    run = import_module(f"{__name__}.{name}").run
    return run(arguments, files, report)
