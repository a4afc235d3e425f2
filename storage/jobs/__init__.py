"""Work on the log's files that is too heavy for the loop, in a process of its own (`__main__.py`).

A job is a module here with `run(arguments, files, report)`: it gets JSON, reads and writes files,
says `report(bytes)` as it goes (at least once a megabyte), and returns JSON. It never touches what
the broker writes to: the broker takes the result over on its loop.
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
    """Do one job here and now.  Raises: StorageError."""
    if name not in JOBS:
        raise ValueError(f"there is no job named {name}")
    run: Callable[[Arguments, FileSystem, Report], Result]
    run = import_module(f"{__name__}.{name}").run
    return run(arguments, files, report)
