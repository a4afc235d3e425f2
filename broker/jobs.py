"""Runs heavy work on log files outside the event loop: in a niced child process, or inline.

A Python thread would hold the interpreter, and block the event loop, for milliseconds at a time. A
child process only costs its start (a twentieth of a second).
"""

import asyncio
import contextlib
import json
import os
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

    async def __call__(
        self, name: str, arguments: Mapping[str, Any], on_progress: OnProgress | None = None
    ) -> Result:
        """Start a process, send it the job, and read its lines until the result."""
        child = await _start()
        try:
            return await _converse(child, _request(name, arguments), on_progress)
        finally:
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await asyncio.shield(child.wait())


async def _start() -> asyncio.subprocess.Process:
    """Raises: JobFailed."""
    try:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "odradek.storage.jobs",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=LINE_BYTES_MAX,
        )
    except OSError as error:  # too many processes or descriptors, no memory
        raise JobFailed(f"no process can be started for a job: {error}") from error


def _request(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The job for a child; with this process's id, so that an orphaned child does not start it."""
    return {"job": name, "arguments": dict(arguments), "parent": os.getpid()}


async def _converse(
    child: asyncio.subprocess.Process, job: dict[str, Any], on_progress: OnProgress | None
) -> Result:
    assert child.stdin is not None
    assert child.stdout is not None
    with contextlib.suppress(ConnectionError):  # the child has ended: the empty line below shows it
        child.stdin.write(json.dumps(job).encode())
        await child.stdin.drain()
    child.stdin.close()
    # A line without an end was cut short when the process was killed.
    while (line := await child.stdout.readline()).endswith(b"\n"):
        said = json.loads(line)
        if "result" in said:
            result: Result = said["result"]
            return result
        if "error" in said:
            raise _error(said)
        if on_progress is not None:
            on_progress(said["done_bytes"])
    raise JobFailed(f"the process of the job {job['job']} ended with {await child.wait()}")


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
