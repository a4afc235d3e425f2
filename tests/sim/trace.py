"""What happened in a simulation, so that two runs can be compared.

Lines are for people: connections, bytes, offloaded calls, crashes.  The digest covers more than the
lines: every single callback that ran, on which node and when.
"""

import asyncio
import hashlib
from functools import partial


class Trace:
    """Lines of virtual time, node and event, and one digest over all that ran."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.step_count = 0
        self._hash = hashlib.blake2b(digest_size=16)

    def note(self, now_ns: int, node: str, what: str) -> None:
        """Add a line."""
        line = f"{now_ns / 1e6:14.6f} {node:12} {what}"
        self.lines.append(line)
        self._hash.update(line.encode())

    def step(self, now_ns: int, node: str, callback: object) -> None:
        """Cover one callback by the digest.  No line: there are too many."""
        self.step_count += 1
        self._hash.update(f"{now_ns} {node} {callback_name(callback)}".encode())

    @property
    def digest(self) -> str:
        """Equal for equal runs."""
        return self._hash.hexdigest()

    def tail(self, count: int) -> str:
        """The last lines."""
        return "\n".join(self.lines[-count:])

    def __str__(self) -> str:
        return "\n".join(self.lines)


def callback_name(callback: object) -> str:
    """A name that is the same in every run: no addresses, no counters of the process."""
    owner = getattr(callback, "__self__", None)
    if isinstance(owner, asyncio.Task):
        return f"task {task_name(owner)}"
    if isinstance(callback, partial):
        return callback_name(callback.func)
    return str(getattr(callback, "__qualname__", type(callback).__name__))


def task_name(task: "asyncio.Task[object]") -> str:
    """The coroutine's name; `Task-42` counts all tasks the process ever had."""
    return str(getattr(task.get_coro(), "__qualname__", "?"))
