"""Runs heavy work on log files outside the event loop: in a niced child process, or inline.

A Python thread would hold the interpreter, and block the event loop, for milliseconds at a time. A
child process only costs its start (a twentieth of a second).

Threads do whatever waits for a child, also for its end. They go on if nobody waits for them any
longer, as when a broker crashes: its task is cancelled, and again at the end of the event loop.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from odradek.storage import errors
from odradek.storage.errors import LogDirFailed, StorageError
from odradek.storage.jobs import Result, run_job

if TYPE_CHECKING:
    from odradek.storage.files import FileSystem

    from .runtime import Offload

LINE_BYTES_MAX: Final = 64 << 20
OnProgress = Callable[[int], None]
Child = subprocess.Popen[bytes]


class JobFailed(StorageError):
    """The child process ended without a result, killed or out of memory, or could not start."""


class Jobs(Protocol):
    """Runs one of `odradek.storage.jobs` by its name."""

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        """Run a job; `on_progress` gets the bytes done so far.

        Cancelling also ends the job, if it runs in a child process.
        Raises: StorageError, of the class that the job raised; JobFailed.
        """
        ...


class ChildJobs:
    """Runs each job in its own child process."""

    def __init__(self, offload: "Offload") -> None:
        """`offload` must have a thread for each call: it lasts as long as the job."""
        self._offload = offload

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        """Start a process, send it the job, and read its lines until the result."""
        child = _start()
        try:
            return await self._converse(child, _request(name, arguments), on_progress)
        finally:
            child.kill()
            await self._offload(_reap, child)

    async def _converse(
        self, child: Child, job: Mapping[str, Any], on_progress: OnProgress | None
    ) -> Result:
        assert child.stdout is not None
        await self._offload(_send, child, json.dumps(job).encode())
        # A line without an end was cut short when the process was killed.
        while (line := await self._offload(child.stdout.readline, LINE_BYTES_MAX)).endswith(b"\n"):
            said = json.loads(line)
            if "result" in said:
                result: Result = said["result"]
                return result
            if "error" in said:
                raise _error(said)
            if on_progress is not None:
                on_progress(said["done_bytes"])
        code = await self._offload(child.wait)
        raise JobFailed(f"the process of the job {job['job']} ended with {code}")


def _start() -> Child:
    """Raises: JobFailed."""
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "odradek.storage.jobs"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    except OSError as error:  # too many processes or descriptors, no memory
        raise JobFailed(f"no process can be started for a job: {error}") from error


def _request(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The job for a child; with this process's id, so that an orphaned child does not start it."""
    return {"job": name, "arguments": dict(arguments), "parent": os.getpid()}


def _send(child: Child, request: bytes) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin as stdin:  # it has ended: stdout shows
        stdin.write(request)


def _reap(child: Child) -> None:
    child.wait()
    assert child.stdout is not None
    child.stdout.close()  # may wait for a thread that reads; there is nothing more to read


def _error(said: Mapping[str, Any]) -> StorageError:
    kind = getattr(errors, said["error"], JobFailed)
    if issubclass(kind, LogDirFailed):
        return kind(said["message"], said["path"])
    if kind in (errors.OffsetOutOfRange, errors.ProducerError):
        kind = JobFailed
    failure: StorageError = kind(said["message"])
    return failure


class InlineJobs:
    """Runs each job as one offloaded call: for simulators and systems without child processes."""

    def __init__(self, files: "FileSystem", offload: "Offload") -> None:
        self._files = files
        self._offload = offload

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        """Run the job to its end in one call."""
        return await self._offload(
            run_job, name, dict(arguments), self._files, on_progress or _ignore
        )


def _ignore(_: int) -> None:
    pass
