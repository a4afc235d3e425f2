"""What a request costs a broker, without a clock: system calls, memory and messages.

System calls are counted where Python calls the C functions that make them, by the interpreter's
profiler, in the thread of the event loop: exact, and the same on every machine. It does not see
what threads do (no request here gives them work), what a C function does inside (a page fault,
malloc's own calls), nor, as no counter of calls does, how long one takes.

Memory is the most that was held at once beyond what was held before the request, by tracemalloc.
It sees a copy of records, and does not see what is allocated and freed piece by piece.
"""

import socket
import statistics
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from odradek.protocol.schema import Message
from tests.support.connections import TIMEOUT_S
from tests.support.frames import SIZE, framed, request_bytes, size_bytes_in

from .standing import StandingLoop

COUNTED: Final = 20
WARMED_UP_WITH: Final = 40
CALLERS: Final = frozenset(
    {"_io", "_socket", "_sqlite3", "fcntl", "io", "mmap", "posix", "select", "socket", "sqlite3"}
)
"""Modules whose C functions call the system."""
NO_CALLS: Final = frozenset({"fileno", "fspath", "gettimeout"})
IN_MEMORY: Final = frozenset({"BytesIO", "StringIO"})
POLL: Final = "poll"  # StandingSelector counts it

VERSIONS: Final = {0: 11, 1: 12, 12: 4, 68: 1}
"""By API key: what is asked in."""

Cost = dict[str, Any]


class Asking:
    """A client that allocates as good as nothing: its requests are ready, its buffer is there."""

    def __init__(self, loop: StandingLoop, port: int) -> None:
        self._loop = loop
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.settimeout(TIMEOUT_S)
        self.address = self._socket.getsockname()
        self._answer = memoryview(bytearray(2 << 20))

    def close(self) -> None:
        self._socket.close()

    def ask(self, frame: bytes) -> None:
        """One request; return when it is answered, and nothing is left to do."""
        idle = self._loop.selector.idle
        idle.clear()
        self._socket.sendall(frame)
        self._receive(0, SIZE.size)
        self._receive(SIZE.size, SIZE.size + size_bytes_in(bytes(self._answer[: SIZE.size])))
        self._loop.until_idle()

    def _receive(self, begin: int, end: int) -> None:
        while begin < end:
            received = self._socket.recv_into(self._answer[begin:end])
            assert received > 0, "the broker has hung up"
            begin += received


class Calls:
    """Counts what a thread does inside `seen`, while `counting`."""

    def __init__(self) -> None:
        self.counting = False
        self.system = Counter[str]()
        self.messages = Counter[str]()
        self.store = Counter[str]()

    @contextmanager
    def seen(self) -> Iterator[None]:
        """See the calls of this thread."""
        before = sys.getprofile()
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(before)

    def reset(self) -> None:
        """Count from zero."""
        for counter in (self.system, self.messages, self.store):
            counter.clear()

    def _see(self, frame: FrameType, event: str, function: Any) -> None:
        if not self.counting:
            return
        if event == "c_call":
            if (name := system_call(function)) is not None:
                self.system[name] += 1
        elif event == "call":
            code = frame.f_code
            path = Path(code.co_filename)
            if path.parent.name == "handlers" and code.co_name == "handle":
                self.messages[path.stem] += 1
            elif path.name == "embedded.py" and code.co_name in ("read", "write"):
                self.store[code.co_name] += 1


def system_call(function: Any) -> str | None:
    """What a C function is called if it calls the system."""
    name: str = function.__name__
    owner = getattr(function, "__self__", None)
    if name in NO_CALLS or owner is None:
        return None
    if isinstance(owner, ModuleType):
        return name if owner.__name__ in CALLERS else None
    kinds = (owner if isinstance(owner, type) else type(owner)).__mro__
    kind = next((kind for kind in kinds if name in vars(kind)), object)
    if kind.__module__ not in CALLERS or kind.__name__ in IN_MEMORY or name == POLL:
        return None
    return f"{kind.__name__}.{name}"


def measure(
    loop: StandingLoop, asking: Asking, calls: Calls, requests: Mapping[str, Message]
) -> dict[str, Cost]:
    """What one of each costs on average: for another thread than the loop's, which stands."""
    costs = {}
    for name, request in requests.items():
        frame = _frame(request)
        for _ in range(WARMED_UP_WITH):
            asking.ask(frame)
        calls.reset()
        turns = loop.selector.turns
        calls.counting = True
        for _ in range(COUNTED):
            asking.ask(frame)
        calls.counting = False
        if len(calls.messages) == 1:  # brokers that speak at once may be served in one turn or two
            calls.system["epoll.poll"] = loop.selector.turns - turns
        costs[name] = {
            "messages": _each(calls.messages),
            "store": _each(calls.store),
            "system calls": _each(calls.system),
        }
    return costs


def bytes_held(asking: Asking, requests: Mapping[str, Message]) -> dict[str, int]:
    """How much memory each takes on its way, beyond what was there; nobody counts calls."""
    held = {}
    for name, request in requests.items():
        frame, peaks = _frame(request), []
        tracemalloc.start()
        try:
            asking.ask(frame)
            for _ in range(COUNTED):
                before, _ = tracemalloc.get_traced_memory()
                tracemalloc.reset_peak()
                asking.ask(frame)
                peaks.append(tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
        held[name] = int(statistics.median(peaks))
    return held


def _frame(request: Message) -> bytes:
    return framed(request_bytes(request, VERSIONS[request.API_KEY]))


def _each(counts: Counter[str]) -> dict[str, float]:
    """Of one request; whole numbers as such."""
    each = {name: count / COUNTED for name, count in sorted(counts.items())}
    return {name: int(count) if count.is_integer() else count for name, count in each.items()}
