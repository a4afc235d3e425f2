"""Producers of a few transactional ids, two of each, that now and then crash or give up waiting."""

from collections.abc import Callable
from typing import Final

from odradek.broker.core.effects import Producer
from odradek.broker.core.partition_state import TopicPartition
from odradek.protocol.errors import ErrorCode
from tests.broker.core.transactions.running import Waiting

from .world import VERSION_2, Item, World

KEYS: Final = ("a", "b")
AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

Ask = Callable[[], Waiting]


class Client:
    """One producer, as a library would behave."""

    def __init__(self, world: World, key: str) -> None:
        self._world = world
        self._random = world.random
        self.key = key
        self._version = world.client_version()
        self._producer: Producer | None = None
        self._before: Producer | None = None
        """What it was before it was fenced, or failed."""
        self._asks: Ask | None = None
        """What it wants answered, and asks again."""
        self._heard: Callable[[Waiting], None] | None = None
        self._waiting: Waiting | None = None
        self._added: set[TopicPartition] = set()
        self._items: list[Item] = []

    def step(self) -> None:
        chance = self._random.random()
        if chance < 0.01:
            self._begin_anew(None)
        if self._waiting is not None:
            self._hear(self._waiting, gives_up=chance < 0.05)
        if self._waiting is None and self._asks is None:
            if self._producer is not None:
                self._go_on(self._producer, self._random.random())
            elif chance < 0.1:  # seldom, for it fences the other one
                self._init(self._before)
        if self._waiting is None and self._asks is not None:
            self._waiting = self._asks()

    def _go_on(self, producer: Producer, chance: float) -> None:
        if chance < 0.03:
            self._before, self._producer = producer, None
        elif self._version == VERSION_2 and not self._added and chance < 0.2:
            self._end(producer, commits=False)
        elif chance < 0.2 or not self._added:
            self._add(producer)
        elif chance < 0.6:
            self._produce(producer)
        else:
            self._end(producer, commits=self._random.random() < 0.6)

    def _hear(self, waiting: Waiting, *, gives_up: bool) -> None:
        if waiting.code is None:
            if gives_up:
                self._waiting = None
            return
        self._waiting = None
        if waiting.code is ErrorCode.NONE:
            assert self._heard is not None
            self._asks = None
            self._heard(waiting)
        elif waiting.code not in AGAIN:
            self._begin_anew(self._producer)

    def _begin_anew(self, before: Producer | None) -> None:
        self._producer, self._before = None, before
        self._asks = self._waiting = None
        self._added, self._items = set(), []

    # What it asks for.

    def _init(self, claimed: Producer | None) -> None:
        def heard(waiting: Waiting) -> None:
            self._begin_anew(None)
            self._producer = waiting.producer

        self._asks = lambda: self._world.init(claimed, key=self.key)
        self._heard = heard

    def _add(self, producer: Producer) -> None:
        there = sorted(self._world.partitions)
        some = self._random.sample(there, self._random.randint(1, 2))

        self._asks = lambda: self._world.add(
            producer, *some, key=self.key, client_version=self._version
        )
        self._heard = lambda waiting: self._added.update(some)

    def _produce(self, producer: Producer) -> None:
        key = self._random.choice(sorted(self._added))
        partition = self._world.partitions.get(key)
        if partition is None or self._world.verify(producer, key, key=self.key):
            return
        item = Item(self._world.history.instances[self.key], key)
        if partition.append(producer, item):
            self._items.append(item)
            self._world.items.append(item)

    def _end(self, producer: Producer, *, commits: bool) -> None:
        def heard(waiting: Waiting) -> None:
            for item in self._items:
                item.acknowledged = commits
            self._added, self._items = set(), []
            self._producer = waiting.producer

        self._asks = lambda: self._world.end(
            producer, commits=commits, key=self.key, client_version=self._version
        )
        self._heard = heard
