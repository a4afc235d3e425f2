"""Time, chance and the network of a simulated cluster: events in a heap, and nothing else.

What happens is decided by one seed. Messages are delayed (some for long), lost, sent twice, and do
not arrive where a link is cut; who asks hears at last that there was no answer.
"""

import heapq
import random
from collections.abc import Callable
from typing import Any, Final, Protocol
from zlib import crc32

from odradek.broker.runtime import Clock

STORE: Final = 0
"""Stands for the store where links are cut."""
NOTHING: Final = False
"""What a happening returns that came to nothing: it is no event."""
RETRY_MS: Final = 50

Happening = Callable[[], object]
Reply = Callable[[Any], None]


def name_of(happen: Happening) -> str:
    """Where in the code it stands."""
    return getattr(happen, "__qualname__", "")


class Killed(BaseException):
    """A process is killed in the middle of something."""

    def __init__(self, victim: Callable[[], object], share: float) -> None:
        """`victim` is told; `share` is how much of a write is done."""
        super().__init__()
        self.victim = victim
        self._share = share

    def part(self, data: bytes | bytearray | memoryview) -> bytes:
        """What of a write has been done."""
        return bytes(data[: int(len(data) * self._share)])


class Node(Protocol):
    """Whoever sends and receives."""

    broker_id: int
    incarnation: int

    @property
    def is_reachable(self) -> bool:
        """Whether requests are taken."""
        ...


class World(Clock):
    """The clock, and what is still to happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.time_ms = 0
        self.event_count = 0
        self.trace = 0
        """A number for all that has happened so far."""
        self.is_calm = False
        """Whether nothing is lost, slow or repeated any more."""
        self.cuts: set[frozenset[int]] = set()
        self._heap: list[tuple[int, int, Happening, str]] = []
        self._order = 0

    def now_ms(self) -> int:
        """As `Clock`: milliseconds, monotonic."""
        return self.time_ms

    def wall_ms(self) -> int:
        """As `Clock`."""
        return self.time_ms

    # What happens.

    def after(self, delay_ms: int, happen: Happening, who: str = "") -> None:
        """Have something happen; events of one moment happen in the order of these calls.

        `who` does it, as the trace knows it.
        """
        self._order += 1
        heapq.heappush(self._heap, (self.time_ms + delay_ms, self._order, happen, who))

    def step(self) -> None:
        """Let the next thing happen."""
        self.time_ms, _, happen, who = heapq.heappop(self._heap)
        try:
            is_event = happen() is not NOTHING
        except Killed as killed:
            killed.victim()
            is_event = True
        if is_event:
            self.event_count += 1
            what = crc32(f"{who} {name_of(happen)}".encode())
            self.trace = hash((self.trace, self.time_ms, what))

    def chance(self, probability: float) -> bool:
        """Whether something bad happens now."""
        return not self.is_calm and self.random.random() < probability

    def delay_ms(self) -> int:
        """How long a message takes."""
        if self.chance(0.04):
            return self.random.randrange(50, 600)
        return 1 + int(self.random.random() * 8)

    # The network.

    def is_cut(self, one: int, other: int) -> bool:
        """Whether nothing gets from one to the other."""
        return bool(self.cuts) and frozenset((one, other)) in self.cuts

    def ask(
        self,
        asker: Node,
        target: Node,
        handle: Callable[[Reply], object],
        on_answer: Callable[[Any, bool], object],
        on_failure: Callable[[], object],
        timeout_ms: int,
        *,
        repeats: bool = True,
    ) -> None:
        """Have a request handled at another node, and its answer here.

        `on_answer` may be called several times, the flag says that it is too late by then. Unless
        it `repeats` nothing arrives once the asker has given up.
        """
        incarnation = asker.incarnation
        is_over = False
        who = f"{asker.broker_id} {target.broker_id}"

        def reply(answer: Any) -> None:
            if not self.chance(0.03):
                self.after(self.delay_ms(), lambda: arrive(answer), who)

        def arrive(answer: Any) -> object:
            nonlocal is_over
            if asker.incarnation != incarnation or self.is_cut(asker.broker_id, target.broker_id):
                return NOTHING
            was_over, is_over = is_over, True
            return on_answer(answer, was_over)

        def deliver() -> object:
            if not target.is_reachable or self.is_cut(asker.broker_id, target.broker_id):
                return NOTHING
            if is_over and not repeats:
                return NOTHING
            return handle(reply)

        def give_up() -> object:
            nonlocal is_over
            if is_over or asker.incarnation != incarnation:
                return NOTHING
            is_over = True
            return on_failure()

        if not self.chance(0.03):
            self.after(self.delay_ms(), deliver, who)
        if repeats and self.chance(0.04):
            self.after(self.delay_ms() + self.delay_ms(), deliver, who)
        self.after(timeout_ms, give_up, who)
