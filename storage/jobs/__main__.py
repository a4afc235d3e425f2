"""Runs one job: `python -m odradek.storage.jobs`.

Standard input is one JSON object, {"job": …, "arguments": …, "parent": the parent's process id}.
Standard output is JSON lines: {"done_bytes": …} for each report of the job, then {"result": …}, or
{"error": …, "message": …, "path": …} with the name of a storage error. The process runs at the
lowest priority, and dies with its parent, since two cleaners must never work on one partition. A
job with "io_bytes_per_second" in its arguments is throttled to that rate when it reports.
"""

import contextlib
import ctypes
import json
import os
import signal
import sys
from time import monotonic, sleep  # noqa: TID251 - a process of its own has a clock of its own
from typing import Any, Final

from ..errors import LogDirFailed, StorageError
from ..files import RealFileSystem
from . import run_job
from .throttle import throttled

_PR_SET_PDEATHSIG: Final = 1
_NICE: Final = 5
"""The event loop goes first, but on a crowded machine jobs must not stand still: what is not
compacted fills the disk. Beside eight busy processes on two cores, 0.3 s of work take 75 s with 19,
11 s with 10, 4 s with 5 and 1 s with 0."""


def main() -> None:
    """Read the job, run it, write the result or the error."""
    os.nice(_NICE)
    job = json.load(sys.stdin)
    _end_with(job["parent"])
    report = throttled(_say_done, job["arguments"].get("io_bytes_per_second"), monotonic, sleep)
    try:
        result = run_job(job["job"], job["arguments"], RealFileSystem(), report)
    except StorageError as error:
        path = error.path if isinstance(error, LogDirFailed) else None
        _say({"error": type(error).__name__, "message": str(error), "path": path})
    else:
        _say({"result": result})


def _say_done(size_bytes: int) -> None:
    _say({"done_bytes": size_bytes})


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()  # raises BrokenPipeError here if the parent is gone


def _end_with(parent: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before prctl, so there will be no signal
        sys.exit("the parent is gone")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        main()
