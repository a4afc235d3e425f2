"""What a broker takes from the world, simulated: clock, threads, chance.  Files stay real."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar, TypeVarTuple

from odradek.broker.jobs import InlineJobs
from odradek.broker.runtime import OFFLOAD_THREADS_MAX, WRITE_THREADS_MAX, Clock, Runtime
from odradek.storage.files import FileSystem

from .loop import SimLoop
from .node import Node
from .trace import callback_name

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WALL_MS_START = 1_700_000_000_000
CALL_NS = (10_000, 2_000_000)
SLOW_CALL_NS = (2_000_000, 100_000_000)
SLOW_ONE_IN = 30


class SimClock(Clock):
    """Virtual time.  The wall clock can be moved, as an administrator would."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self._wall_offset_ms = WALL_MS_START

    def now_ms(self) -> int:
        """Virtual milliseconds since the simulation began."""
        return self._loop.now_ns // 1_000_000

    def wall_ms(self) -> int:
        """Virtual milliseconds since the Unix epoch."""
        return self.now_ms() + self._wall_offset_ms

    def move_wall(self, by_ms: int) -> None:
        """Let the wall clock jump; the monotonic clock takes no notice."""
        self._wall_offset_ms += by_ms


class SimOffload:
    """Threads without threads: calls start in order and end after a seeded time.

    A call has its effect at one instant, its caller learns of it later: a crash may fall before
    the effect, or between the two, as with a real thread.
    """

    def __init__(self, loop: SimLoop, node: Node, *, threads_max: int) -> None:
        self._loop = loop
        self._node = node
        self._free_ns = [0] * threads_max

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        """Queue a call for the first free thread."""
        future: asyncio.Future[T] = self._loop.create_future()
        thread = min(range(len(self._free_ns)), key=self._free_ns.__getitem__)
        slow = self._loop.random.randrange(SLOW_ONE_IN) == 0
        duration_ns = self._loop.random.randrange(*(SLOW_CALL_NS if slow else CALL_NS))
        end_ns = max(self._free_ns[thread], self._loop.now_ns) + duration_ns
        self._free_ns[thread] = end_ns
        self._loop.call_in_ns(
            end_ns - self._loop.now_ns, self._node, self._run, future, function, args
        )
        return future

    def _run(
        self, future: "asyncio.Future[T]", function: Callable[[*Ts], T], args: tuple[*Ts]
    ) -> None:
        self._loop.note(f"offloaded {callback_name(function)}")
        try:
            result = function(*args)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits the call
            self._later(_set_exception, future, error)
        else:
            self._later(_set_result, future, result)

    def _later(self, callback: Callable[..., None], *args: object) -> None:
        delay_ns = self._loop.random.randrange(*CALL_NS)
        self._loop.call_in_ns(delay_ns, self._node, callback, *args)


def _set_result(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def sim_runtime(loop: SimLoop, node: Node, clock: SimClock, files: FileSystem) -> Runtime:
    """The runtime of a broker on `node`."""
    offload = SimOffload(loop, node, threads_max=OFFLOAD_THREADS_MAX)
    drawn = random.Random(loop.random.random())
    return Runtime(
        clock=clock,
        offload=offload,
        jobs=InlineJobs(files, offload),
        random=drawn,
        files=files,
        store_offload=SimOffload(loop, node, threads_max=1),
        write_offload=SimOffload(loop, node, threads_max=WRITE_THREADS_MAX),
        random_bits=drawn.getrandbits,  # brokers send passwords that are drawn here
    )
