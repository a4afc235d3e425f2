"""Clocks, randomness and threads: a broker's only access to them.

This is the only module under broker/ that may use `time`, `random`, threads or an executor.
Everything else takes a `Runtime` (or one of its parts) as an argument, so that a simulator can run
the production code with a virtual clock, a seeded random source, a fake disk and no threads at all.
"""

import asyncio
import contextlib
import os
import random
import resource
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from odradek.storage.files import FileSystem

    from .faults.interceptor import Interceptor
    from .jobs import Jobs
    from .network.network import Network

OFFLOAD_THREADS_MAX = 4
WRITE_THREADS_MAX = 4
COMPRESS_THREADS_MAX = max(1, (os.cpu_count() or 2) // 2)

unguessable_bits = random.SystemRandom().getrandbits

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


Moves = set[Callable[[int], None]]
"""Each is called with the milliseconds by which a clock was moved."""


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Do not call; may be repeated, also after the call."""
        ...


class Clock(ABC):
    """Three clocks that must never be mixed.

    A test may move two of them (`movable_clock.py`), so that sessions, transactions and records
    expire.  No broker, replica or connection must be given up because of it: these go by `now_ms`.
    """

    moves: Moves | None = None
    """Who is told when a test moves the clock; None: none can."""

    @abstractmethod
    def now_ms(self) -> int:
        """Monotonic, never moved: for lag, backoff, idle connections, waiting for brokers."""

    @abstractmethod
    def wall_ms(self) -> int:
        """Since the Unix epoch: for everything written to disk or sent to a peer or ZooKeeper."""

    def timer_ms(self) -> int:
        """Monotonic, unaffected by wall-clock jumps: for what expires for clients."""
        return self.now_ms()

    def call_at(self, at_ms: int, callback: Callable[[], None]) -> Timer:
        """Call once `timer_ms` has reached a time, at the earliest in the loop's next turn."""
        delay_s = max(0, at_ms - self.timer_ms()) / 1000
        return asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, for_ms: int) -> None:
        """Return after a time on `timer_ms`: for tasks that work in rounds."""
        await asyncio.sleep(for_ms / 1000)


class SystemClock(Clock):
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class Offload(Protocol):
    """Runs a blocking function outside the event loop: fsync, unlink, a cold read, a SQLite commit,
    a large write, the compression of a large batch.

    Only for calls that release the GIL; Python-heavy work belongs in a child process.  The caller
    must await the result at once: an implementation may start the call immediately (threads) or
    when it is first awaited (inline).  Cancelling the wait does not stop the function.
    """

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        """Start `function(*args)`; awaiting gives its result or raises its exception."""
        ...


class ThreadOffload:
    """An `Offload` with a few threads, which are started as they are needed."""

    def __init__(self, name: str, *, threads_max: int) -> None:
        self._name = name
        self._threads_max = threads_max
        self._executor: ThreadPoolExecutor | None = None
        self._closed = False

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        """Queue `function(*args)` for a thread.  Raises: RuntimeError after `close`."""
        if self._closed:
            raise RuntimeError(f"{self._name} is closed")
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._threads_max, thread_name_prefix=self._name)
        return asyncio.get_running_loop().run_in_executor(self._executor, function, *args)

    def close(self) -> None:
        """Finish queued calls, end the threads, reject new calls.  Blocks; may be repeated."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)


class DaemonOffload:
    """An `Offload` for calls that may never end: a thread for each, for which nobody waits."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        """Start a thread that runs `function(*args)`."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run() -> None:
            try:
                deliver = partial(future.set_result, function(*args))
            except BaseException as error:  # noqa: BLE001 - whoever awaits gets it
                deliver = partial(future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(lambda: future.done() or deliver())

        threading.Thread(target=run, name=self._name, daemon=True).start()
        return future


class ThreadTimes(NamedTuple):
    """The time that a thread has spent so far."""

    cpu_ms: int
    queued_ms: int
    """Ready to run, but waiting for a CPU."""


@dataclass(slots=True, kw_only=True)
class Runtime:
    """A broker's access to clocks, randomness, threads, files and jobs."""

    clock: Clock
    offload: Offload
    random: random.Random
    random_bits: Callable[[int], int] = unguessable_bits
    """`random_bits(n)`: a number of n bits that nobody can guess."""
    files: "FileSystem"
    jobs: "Jobs"
    store_offload: Offload | None = None
    """The embedded store's own thread, so that no commit waits behind slow flushes of partitions.
    None: the store shares `offload`."""
    write_offload: Offload | None = None
    """The followers' own threads, so that no replica falls behind due to slow flushes and cold
    reads. None: they share `offload`."""
    compress_offload: Offload | None = None
    """Threads that compress batches, so that no flush waits behind them, and that leave processors
    to everything else. None: they share `offload`."""
    unending_offload: Offload | None = None
    """For calls that may never end, as a file system does not answer: `close` does not wait for
    them. None: they share `offload`."""
    thread_times: Callable[[], "ThreadTimes"] = lambda: ThreadTimes(0, 0)
    """The times of the calling thread."""
    loop_ns: Callable[[], int] = lambda: 0
    """A clock that is fine enough for the work on one request."""
    boot_id: Callable[[], str | None] = lambda: None
    """An id that changes whenever the machine boots: then unsynced data may be lost.
    None: the system has no such id."""
    interceptor: "Interceptor | None" = None
    """What makes requests fail, and keeps a journal of them, in a test.  None: nothing does."""
    network: "Network | None" = None
    """What cuts links between brokers, and slows them down, in a test.  None: nothing does."""

    syncs: bool = True
    """Whether files are synced; false only if a power failure may destroy them."""

    @classmethod
    def system(cls, *, syncs: bool = True) -> Self:
        """The real system's runtime.  The caller must `close` it; threads start on first use."""
        from odradek.storage.files import RealFileSystem

        from .jobs import ChildJobs

        return cls(
            clock=SystemClock(),
            offload=ThreadOffload("odradek-offload", threads_max=OFFLOAD_THREADS_MAX),
            random=random.Random(),
            files=RealFileSystem(open_files_max=_open_files_max(), syncs=syncs),
            jobs=ChildJobs(DaemonOffload("odradek-job")),
            store_offload=ThreadOffload("odradek-store", threads_max=1),
            write_offload=ThreadOffload("odradek-write", threads_max=WRITE_THREADS_MAX),
            compress_offload=ThreadOffload("odradek-compress", threads_max=COMPRESS_THREADS_MAX),
            unending_offload=DaemonOffload("odradek-read"),
            thread_times=_thread_times,
            loop_ns=time.perf_counter_ns,
            boot_id=_boot_id,
            syncs=syncs,
        )

    def random_bytes(self, count: int) -> bytes:
        """Bytes that nobody can guess."""
        return self.random_bits(8 * count).to_bytes(count, "big")

    def close(self) -> None:
        """End the threads that were started.  Blocks until they have finished their work."""
        offloads = self.offload, self.store_offload, self.write_offload, self.compress_offload
        for offload in offloads:
            if isinstance(offload, ThreadOffload):
                offload.close()


def seeded(seed: int) -> random.Random:
    """A random source that gives the same for the same seed."""
    return random.Random(seed)


def allow_many_files() -> None:
    """Raise this process's limit of open files to its maximum, as Java does; 1024 is too low."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # not every system accepts its own hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _thread_times() -> ThreadTimes:
    """The times of this thread; 0 for the waiting time if the kernel does not count it."""
    cpu_ms = time.thread_time_ns() // 1_000_000
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return ThreadTimes(cpu_ms, int(file.read().split()[1]) // 1_000_000)
    except (OSError, IndexError, ValueError):
        return ThreadTimes(cpu_ms, 0)


def _boot_id() -> str | None:
    """The boot id of this machine; only Linux has one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read(64).decode("ascii", "replace").strip() or None
    except OSError:
        return None


def _open_files_max() -> int:
    """How many log files may be open: at most half of the limit, the rest is for connections."""
    from odradek.storage.files import OPEN_FILES_MAX

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, soft // 2)
