"""A node: one simulated process, which can be killed without running a line of its own clean-up."""

import asyncio
import ctypes
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from .loop import SimLoop
    from .network import SimServer
    from .transport import SimTransport

T = TypeVar("T")


class NodeCrashed(ConnectionError):
    """The node was killed before the awaited work on it was done."""


class Node:
    """One simulated process.

    Whatever is started by `run` or `start` belongs to it, and all tasks, timers, connections and
    servers that come of it: a context variable is inherited by each of them.
    """

    def __init__(self, loop: "SimLoop", name: str) -> None:
        self.loop = loop
        self.name = name
        self.alive = True
        self.ready: deque[asyncio.Handle] = deque()
        self.servers: list[SimServer] = []
        self.transports: list[SimTransport] = []
        self.outside: Context = self.context()
        """For callbacks that come from no code of a node: arriving packets, finished threads."""
        self._tasks: weakref.WeakSet[asyncio.Task[object]] = weakref.WeakSet()
        self._on_crash: list[Callable[[], None]] = []
        self._waiting: list[asyncio.Future[object]] = []

    def __repr__(self) -> str:
        return f"<Node {self.name}{'' if self.alive else ' crashed'}>"

    def context(self) -> Context:
        """A context whose work belongs to this node."""
        context = copy_context()
        context.run(CURRENT_NODE.set, self)
        return context

    def start(self, coroutine: Coroutine[object, object, T]) -> "asyncio.Task[T]":
        """Start a task on this node.  After a crash it never ends."""
        context = self.context()
        return context.run(lambda: self.loop.create_task(coroutine, context=context))

    async def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine on this node and wait for it here.  Raises: NodeCrashed."""
        task = self.start(coroutine)
        ended: asyncio.Future[object] = self.loop.create_future()
        self._waiting.append(ended)
        task.add_done_callback(
            lambda _task: None if ended.done() else ended.set_result(None),
            context=copy_context(),
        )
        try:
            await ended
        except asyncio.CancelledError:
            task.cancel()
            raise
        finally:
            self._waiting.remove(ended)
        return task.result()

    def at_crash(self, release: Callable[[], None]) -> None:
        """Have something done at a crash that an operating system does: closing files, say."""
        self._on_crash.append(release)

    def adopt(self, task: "asyncio.Task[object]") -> None:
        """Note a task as this node's."""
        self._tasks.add(task)

    def pending_tasks(self) -> "list[asyncio.Task[object]]":
        """Tasks that are not done, in no particular order."""
        return [task for task in self._tasks if not task.done()]

    def kill(self) -> None:
        """End this process.  `SimLoop.crash` is the caller; the network is told there."""
        self.alive = False
        for task in self.pending_tasks():
            _keep_for_ever(task)
        self.ready.clear()
        for release in self._on_crash:
            release()
        for ended in self._waiting:
            if not ended.done():
                ended.set_exception(NodeCrashed(f"{self.name} crashed"))


CURRENT_NODE: ContextVar[Node] = ContextVar("CURRENT_NODE")


def _keep_for_ever(value: object) -> None:
    # A killed process runs no `finally`.  Python closes a suspended coroutine, and so runs its
    # `finally` blocks, when its last reference goes: one reference that nobody holds prevents it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
