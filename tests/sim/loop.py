"""An asyncio event loop with virtual time, seeded chance and in-memory connections.

Production code runs on it unchanged as long as it keeps to asyncio's transports and takes clock,
random source, files and threads as arguments.  Nothing waits: when no callback is ready, time
jumps to the next timer.  Whatever a real machine leaves to chance comes from one seed:

- how long a callback takes (a few microseconds, so that polling loops make progress);
- which node goes next, when several have something to do.  Inside a node the order is asyncio's:
  first scheduled, first run;
- how long bytes travel and in what pieces they arrive (network.py);
- how long an offloaded call takes (runtime.py).

Two runs with one seed give the same trace; `Trace.digest` covers every callback.
"""

import asyncio
import contextlib
import heapq
import random
import sys
import weakref
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Generic, TypeVar, TypeVarTuple

from .leftovers import Deadlock, Endless, Leftovers, SimulationError, left_by, tasks_of
from .network import Network, SimServer
from .node import CURRENT_NODE, Node
from .refused import RefusingLoop
from .trace import Trace
from .transport import SimTransport

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
Factory = Callable[[], asyncio.BaseProtocol]

STEP_NS_MAX = 20_000
STEPS_MAX = 20_000_000
VIRTUAL_HOURS_MAX = 24 * 365


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """How a simulation ended."""

    value: T
    trace: Trace
    virtual_ms: int


def simulate(main: "Callable[[SimLoop], Coroutine[Any, Any, T]]", seed: int) -> Outcome[T]:
    """Run `main(loop)` to its end on a fresh loop.

    Raises: what `main` raises; Deadlock, Endless, Leftovers; SimulationError for an exception that
    nobody awaited.  Each carries the seed and the last lines of the trace as a note.
    """
    loop = SimLoop(seed)
    try:
        value = loop.run_until_complete(main(loop))
        loop.check_leftovers()
    except BaseException as error:
        loop.kill_all()  # its own clean-up could only hide what went wrong
        error.add_note(f"seed {seed}; the last lines of the trace:\n" + loop.trace.tail(25))
        raise
    finally:
        loop.close()
    return Outcome(value, loop.trace, loop.now_ns // 1_000_000)


class SimLoop(RefusingLoop):
    """The loop.  All nodes of a simulation share it."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now_ns = 0
        self.trace = Trace()
        self.network = Network(self)
        self.main = Node(self, "main")
        self._nodes: list[Node] = [self.main, self.network.wire]
        self._timers: list[tuple[int, int, asyncio.TimerHandle, Node, bool]] = []
        self._timer_count = 0
        self._stopping = self._running = self._closed = False
        self._errors: list[dict[str, Any]] = []
        self._exception_handler: Callable[..., object] | None = None
        self._generators: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()

    # -- nodes

    def node(self, name: str) -> Node:
        """A new process.  A name may come back after a crash."""
        if any(node.alive and node.name == name for node in self._nodes):
            raise ValueError(f"node {name} is still running")
        node = Node(self, name)
        self._nodes.append(node)
        self.note(f"process {name} starts")
        return node

    def crash(self, node: Node) -> None:
        """Kill a node as `kill -9` does: its connections break, none of its code runs again."""
        if node is self.main or node is self.current_node():
            raise ValueError("a node is crashed from outside of it")
        self.note(f"process {node.name} is killed")
        node.kill()
        self.network.close_all_of(node)
        self._nodes.remove(node)

    def retire(self, node: Node) -> None:
        """Note that a process has ended by itself.  Raises: Leftovers."""
        left = left_by(node)
        if left:
            raise Leftovers(f"{node.name} ended and left behind:\n" + "\n".join(left))
        self.note(f"process {node.name} ended")
        node.alive = False
        self._nodes.remove(node)

    def kill_all(self) -> None:
        """End every process, for a simulation that failed."""
        for node in self._nodes:
            node.kill()
            self.network.close_all_of(node)

    def current_node(self) -> Node:
        """The node whose code is running."""
        return CURRENT_NODE.get(self.main)

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.note(self.now_ns, self.current_node().name, what)

    # -- time and callbacks

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now_ns / 1e9

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Queue a callback on the node it comes from."""
        self._check_open()
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        context.get(CURRENT_NODE, self.main).ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """The same as `call_soon`: there is one thread."""
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback after `delay` virtual seconds."""
        return self._call_at_ns(self.now_ns + round(delay * 1e9), callback, args, context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Queue a callback for a virtual time."""
        return self._call_at_ns(round(when * 1e9), callback, args, context)

    def call_in_ns(
        self, delay_ns: int, node: Node, callback: Callable[..., object], *args: Any
    ) -> asyncio.TimerHandle:
        """Queue a callback on any node: how the network and finished threads come in."""
        return self._call_at_ns(
            self.now_ns + delay_ns, callback, args, node.outside, is_outside=True
        )

    def _call_at_ns(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: Any,
        context: Context | None,
        *,
        is_outside: bool = False,
    ) -> asyncio.TimerHandle:
        self._check_open()
        context = copy_context() if context is None else context
        timer = asyncio.TimerHandle(when_ns / 1e9, callback, args, self, context)
        self._timer_count += 1
        node = context.get(CURRENT_NODE, self.main)
        heapq.heappush(self._timers, (when_ns, self._timer_count, timer, node, is_outside))
        return timer

    def _timer_handle_cancelled(self, _timer: asyncio.TimerHandle) -> None:
        """Called by `TimerHandle.cancel`; the heap drops it when its time comes."""

    # -- running

    def run_forever(self) -> None:
        """Run callbacks until `stop`.  Raises: Deadlock, Endless, SimulationError."""
        self._check_open()
        if self._running:
            raise RuntimeError("the simulated loop is already running")
        with self._as_running_loop():
            while not self._stopping:
                self._turn()
                if self._errors:
                    self._raise_error()

    @contextlib.contextmanager
    def _as_running_loop(self) -> Generator[None]:
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=self._close_generator)
        asyncio._set_running_loop(self)
        self._running = True
        try:
            yield
        finally:
            self._running = self._stopping = False
            asyncio._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)

    def _turn(self) -> None:
        busy = [node for node in self._nodes if node.ready]
        if not busy:
            self._jump()
            return
        node = busy[0] if len(busy) == 1 else self.random.choice(busy)
        handle = node.ready.popleft()
        if handle.cancelled():
            return
        self.now_ns += self.random.randrange(1, STEP_NS_MAX)
        self.trace.step(self.now_ns, node.name, handle._callback)  # type: ignore[attr-defined]
        if self.trace.step_count > STEPS_MAX:
            raise Endless(f"more than {STEPS_MAX} callbacks")
        handle._run()
        self._move_due_timers()

    def _jump(self) -> None:
        while self._timers and (self._timers[0][2].cancelled() or not self._timers[0][3].alive):
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock("nothing is ready and no timer is set; waiting:\n" + self._waiting())
        self.now_ns = max(self.now_ns, self._timers[0][0])
        if self.now_ns > VIRTUAL_HOURS_MAX * 3_600 * 10**9:
            raise Endless(f"more than {VIRTUAL_HOURS_MAX} virtual hours")
        self._move_due_timers()

    def _move_due_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now_ns:
            _, _, timer, node, _ = heapq.heappop(self._timers)
            if node.alive and not timer.cancelled():
                node.ready.append(timer)

    def run_until_complete(self, future: Any) -> Any:
        """Run until a coroutine or a future is done; give its result."""
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _task: self.stop())
        self.run_forever()
        return task.result()

    def stop(self) -> None:
        """End `run_forever` after the running callback."""
        self._stopping = True

    def is_running(self) -> bool:
        """Whether callbacks are being run."""
        return self._running

    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def close(self) -> None:
        """Take nothing more."""
        for node in self._nodes:
            node.ready.clear()
        self._timers.clear()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("Event loop is closed")

    async def shutdown_asyncgens(self) -> None:
        """Close the asynchronous generators that are still suspended."""
        for generator in list(self._generators):
            await generator.aclose()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """There is none."""

    def _close_generator(self, generator: AsyncGenerator[Any, Any]) -> None:
        self._generators.discard(generator)
        if not self._closed:
            self.create_task(generator.aclose())

    # -- what is left, what went wrong

    def check_leftovers(self) -> None:
        """Raises: Leftovers, if a node that did not crash left something running."""
        left = [line for node in self._nodes for line in left_by(node)]
        for when_ns, _, timer, node, is_outside in sorted(self._timers, key=itemgetter(0, 1)):
            if node.alive and not timer.cancelled() and not is_outside:
                left.append(f"{node.name}: timer at {when_ns / 1e6:.3f} ms: {timer!r}")
        if left:
            raise Leftovers("left behind:\n" + "\n".join(left))

    def _waiting(self) -> str:
        return (
            "\n".join(line for node in self._nodes for line in tasks_of(node)) or "no task at all"
        )

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Note an exception that nobody awaited: it ends the simulation."""
        if self._exception_handler is not None:
            self._exception_handler(self, context)
        else:
            self.default_exception_handler(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        """Note the exception; `run_forever` raises it."""
        self._errors.append(context)

    def _raise_error(self) -> None:
        context = self._errors.pop(0)
        cause = context.get("exception")
        raise SimulationError(f"{context['message']}: {cause!r}") from cause

    def set_exception_handler(self, handler: Callable[..., object] | None) -> None:
        """Have exceptions that nobody awaited handled otherwise."""
        self._exception_handler = handler

    def get_exception_handler(self) -> Any:
        """What `set_exception_handler` set."""
        return self._exception_handler

    def get_debug(self) -> bool:
        """Never: debug mode looks at the real clock."""
        return False

    def set_debug(self, enabled: bool) -> None:
        """Refused silently by asyncio's own rule: `asyncio.run(debug=None)` sets nothing."""
        if enabled:
            raise ValueError("debug mode looks at the real clock")

    # -- futures, tasks, connections

    def create_future(self) -> "asyncio.Future[Any]":
        """A future of this loop."""
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> "asyncio.Task[Any]":
        """A task of the node it comes from."""
        self._check_open()
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        node = self.current_node() if context is None else context.get(CURRENT_NODE, self.main)
        node.adopt(task)
        return task

    def get_task_factory(self) -> None:
        """There is none."""

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Factory,
        host: str | None = None,
        port: int = 0,
        *,
        start_serving: bool = True,
        **options: Any,
    ) -> SimServer:
        """Listen on an in-memory port, 0 for a free one.  Raises: OSError (in use)."""
        return self.network.listen(protocol_factory, host, port, options, start=start_serving)

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Factory, host: str, port: int, **options: Any
    ) -> tuple[SimTransport, asyncio.BaseProtocol]:
        """Connect to an in-memory port.  Raises: ConnectionRefusedError."""
        return await self.network.connect(protocol_factory, host, port, options)
