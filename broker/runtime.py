"""The doors through which time, chance and threads enter a broker.

This is the only module under broker/ that may use `time`, `random`, threads or an executor.
Everything else takes a `Runtime` (or one of its parts) as an argument, so that a simulator can run
the production code with a virtual clock, a seeded random source, a fake disk and no threads at all.
"""

import asyncio
import contextlib
import random
import resource
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, TypeVar, TypeVarTuple

if TYPE_CHECKING:
    from odradek.storage.files import FileSystem

    from .jobs import Jobs

OFFLOAD_THREADS_MAX = 4
WRITE_THREADS_MAX = 4

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class Clock(Protocol):
    """Two clocks that must never be mixed."""

    def now_ms(self) -> int:
        """Monotonic: timers, sessions, lag, long polls.  Unaffected by wall-clock jumps."""
        ...

    def wall_ms(self) -> int:
        """Since the Unix epoch: whatever goes to a disk, to a peer or to ZooKeeper."""
        ...


class SystemClock:
    """The clocks of this machine."""

    def now_ms(self) -> int:
        """Milliseconds of the monotonic clock."""
        return time.monotonic_ns() // 1_000_000

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


class Offload(Protocol):
    """Run a blocking function away from the loop: fsync, unlink, a cold read, a SQLite commit, a
    large write.

    Only for calls that release the GIL; Python-heavy work belongs into a child process.  The
    caller awaits the result at once: an implementation may start the call right away (threads) or
    when it is first awaited (inline).  Cancelling the wait does not stop the function.
    """

    def __call__(self, function: Callable[[*Ts], T], /, *args: *Ts) -> Awaitable[T]:
        """Start `function(*args)`; its result or its exception comes from the await."""
        ...


class ThreadOffload:
    """An `Offload` on a few threads, which start one by one as they are needed."""

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
        """Finish what is queued, end the threads, take nothing more.  Blocks; may be repeated."""
        self._closed = True
        executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=True)


class ThreadTimes(NamedTuple):
    """What a thread has had of the machine so far."""

    cpu_ms: int
    queued_ms: int
    """It was ready to run, and others ran."""


@dataclass(slots=True, kw_only=True)
class Runtime:
    """What a broker takes from the world around it."""

    clock: Clock
    offload: Offload
    random: random.Random
    files: "FileSystem"
    jobs: "Jobs"
    store_offload: Offload | None = None
    """The embedded store's own thread, so that no commit waits behind slow flushes of partitions.
    None: the store shares `offload`."""
    write_offload: Offload | None = None
    """Threads of those who follow, so that no replica falls behind for slow flushes and cold reads.
    None: they share `offload`."""
    thread_times: Callable[[], "ThreadTimes"] = lambda: ThreadTimes(0, 0)
    """Those of the thread that asks."""
    boot_id: Callable[[], str | None] = lambda: None
    """Of the machine: another one after every start of it, so that what was not synced may be gone.
    None: the system has none."""

    @classmethod
    def system(cls) -> Self:
        """The real thing.  The caller must `close` it; threads start on first use only."""
        from odradek.storage.files import RealFileSystem

        from .jobs import ChildJobs

        return cls(
            clock=SystemClock(),
            offload=ThreadOffload("odradek-offload", threads_max=OFFLOAD_THREADS_MAX),
            random=random.Random(),
            files=RealFileSystem(open_files_max=_open_files_max()),
            jobs=ChildJobs(),
            store_offload=ThreadOffload("odradek-store", threads_max=1),
            write_offload=ThreadOffload("odradek-write", threads_max=WRITE_THREADS_MAX),
            thread_times=_thread_times,
            boot_id=_boot_id,
        )

    def close(self) -> None:
        """End the threads that `system` may have started.  Blocks until they are idle."""
        for offload in (self.offload, self.store_offload, self.write_offload):
            if isinstance(offload, ThreadOffload):
                offload.close()


def allow_many_files() -> None:
    """Let this process have as many descriptors as it may, as Java does; 1024 is soon too few."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # not every system takes its own limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _thread_times() -> ThreadTimes:
    """Where the kernel does not count the waiting, there is none."""
    cpu_ms = time.thread_time_ns() // 1_000_000
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return ThreadTimes(cpu_ms, int(file.read().split()[1]) // 1_000_000)
    except (OSError, IndexError, ValueError):
        return ThreadTimes(cpu_ms, 0)


def _boot_id() -> str | None:
    """Only Linux has one."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return file.read(64).decode("ascii", "replace").strip() or None
    except OSError:
        return None


def _open_files_max() -> int:
    """How many log files may be open: at most half of all descriptors, and others serve clients."""
    from odradek.storage.files import OPEN_FILES_MAX

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OPEN_FILES_MAX if soft == resource.RLIM_INFINITY else min(OPEN_FILES_MAX, soft // 2)
