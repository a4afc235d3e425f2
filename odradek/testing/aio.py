"""The blocking calls of a `Broker` as coroutines: `await broker.aio.topics.create("orders")`.

The names, arguments and results are the same, but results that have blocking calls have coroutines
in their place (`AsyncSnapshot`, `AsyncFault`). A call runs in a thread, so the event loop of a test
goes on meanwhile; cancelling the wait does not stop the call.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack

from .broker import Broker
from .clock import Clock
from .faults import Fault, Faults, Rule
from .groups import Groups, Member, TopicPartition
from .journal import Journal
from .network import Network
from .snapshots import Snapshot
from .topics import Topics

P = ParamSpec("P")
R = TypeVar("R")


class Awaited(Generic[P, R]):
    """A method that runs a blocking method of the wrapped object in a thread."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self._method = method

    def __get__(
        self, instance: "Wrapper", owner: type["Wrapper"]
    ) -> Callable[P, Coroutine[Any, Any, R]]:
        """The method of an instance; of its own class, as `ExternalBroker` overrides some."""
        method = getattr(type(instance.wrapped), self._method.__name__, self._method)

        async def call(*args: P.args, **kwargs: P.kwargs) -> R:
            return await asyncio.to_thread(method, instance.wrapped, *args, **kwargs)

        return call


class Wrapper:
    """An object that has the blocking calls of another one as coroutines."""

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped


class AsyncTopics(Wrapper):
    """See `Topics`; `get(name)` is `topics[name]`, `names()` are all."""

    create = Awaited(Topics.create)
    delete = Awaited(Topics.delete)
    get = Awaited(Topics.__getitem__)
    names = Awaited(list[str])


class AsyncGroup(Wrapper):
    """See `Group`: `await broker.aio.groups["g"].offsets`."""

    @property
    def state(self) -> Awaitable[str]:
        """Kafka's name of its state."""
        return asyncio.to_thread(lambda: self.wrapped.state)

    @property
    def members(self) -> Awaitable[list[Member]]:
        """The members with what they are assigned."""
        return asyncio.to_thread(lambda: self.wrapped.members)

    @property
    def offsets(self) -> Awaitable[dict[TopicPartition, int]]:
        """The committed offsets by topic and partition."""
        return asyncio.to_thread(lambda: self.wrapped.offsets)

    @property
    def lag(self) -> Awaitable[dict[TopicPartition, int]]:
        """How many offsets each committed offset is behind the high watermark."""
        return asyncio.to_thread(lambda: self.wrapped.lag)


class AsyncGroups(Wrapper):
    """See `Groups`; `ids()` are all."""

    ids = Awaited(list[str])

    def __getitem__(self, group_id: str) -> AsyncGroup:
        groups: Groups = self.wrapped
        return AsyncGroup(groups[group_id])


class AsyncFault(Wrapper):
    """See `Fault`: `await fault.hits`."""

    remove = Awaited(Fault.remove)

    @property
    def id(self) -> str:
        """Its id in the admin API."""
        fault: Fault = self.wrapped
        return fault.id

    @property
    def hits(self) -> Awaitable[int]:
        """How often it has acted."""
        return asyncio.to_thread(lambda: self.wrapped.hits)

    @property
    def matched(self) -> Awaitable[int]:
        """How many requests it was about."""
        return asyncio.to_thread(lambda: self.wrapped.matched)

    @property
    def nearest_miss(self) -> Awaitable[str | None]:
        """Why it has never acted."""
        return asyncio.to_thread(lambda: self.wrapped.nearest_miss)


class AsyncFaults(Wrapper):
    """See `Faults`."""

    clear = Awaited(Faults.clear)

    async def add(self, api: str | int | None = None, **rule: Unpack[Rule]) -> AsyncFault:
        """Put a rule in force, after those that there are."""
        faults: Faults = self.wrapped
        return AsyncFault(await asyncio.to_thread(faults.add, api, **rule))

    async def all(self) -> list[AsyncFault]:
        """The rules in force."""
        faults: Faults = self.wrapped
        return [AsyncFault(fault) for fault in await asyncio.to_thread(faults.all)]


class AsyncJournal(Wrapper):
    """See `Journal`."""

    requests = Awaited(Journal.requests)
    assert_requests = Awaited(Journal.assert_requests)
    save = Awaited(Journal.save)
    clear = Awaited(Journal.clear)


class AsyncClock(Wrapper):
    """See `Clock`: `await broker.aio.clock.advance("60s")`."""

    advance = Awaited(Clock.advance)
    freeze = Awaited(Clock.freeze)
    resume = Awaited(Clock.resume)

    @property
    def is_frozen(self) -> Awaitable[bool]:
        """Whether time stands still."""
        return asyncio.to_thread(lambda: self.wrapped.is_frozen)

    @property
    def now(self) -> Awaitable[datetime]:
        """The brokers' wall clock."""
        return asyncio.to_thread(lambda: self.wrapped.now)


class AsyncNetwork(Wrapper):
    """See `Network`: `await broker.aio.network.isolate(2)`."""

    split = Awaited(Network.split)
    isolate = Awaited(Network.isolate)
    slow = Awaited(Network.slow)
    heal = Awaited(Network.heal)

    @property
    def state(self) -> Awaitable[dict[str, Any]]:
        """What is cut and slow."""
        return asyncio.to_thread(lambda: self.wrapped.state)


class AsyncSnapshot(Wrapper):
    """See `Snapshot`."""

    remove = Awaited(Snapshot.remove)

    @property
    def id(self) -> str:
        """Its id in the broker's process."""
        snapshot: Snapshot = self.wrapped
        return snapshot.id

    @property
    def directory(self) -> Path:
        """Its files."""
        snapshot: Snapshot = self.wrapped
        return snapshot.directory


class AsyncBroker(Wrapper):
    """See `Broker`."""

    start = Awaited(Broker.start)
    stop = Awaited(Broker.stop)
    kill = Awaited(Broker.kill)
    pause = Awaited(Broker.pause)
    resume = Awaited(Broker.resume)
    set_rack = Awaited(Broker.set_rack)
    restart = Awaited(Broker.restart)
    disk_full = Awaited(Broker.disk_full)
    fail_disk = Awaited(Broker.fail_disk)
    heal_disk = Awaited(Broker.heal_disk)
    close = Awaited(Broker.close)
    reset = Awaited(Broker.reset)
    leader = Awaited(Broker.leader)
    records = Awaited(Broker.records)
    produce = Awaited(Broker.produce)
    move_leader = Awaited(Broker.move_leader)
    shuffle_leaders = Awaited(Broker.shuffle_leaders)
    coordinator = Awaited(Broker.coordinator)
    move_coordinator = Awaited(Broker.move_coordinator)
    fork = Awaited(Broker.fork)
    wait_for_topic = Awaited(Broker.wait_for_topic)
    wait_for_records = Awaited(Broker.wait_for_records)
    wait_for_group = Awaited(Broker.wait_for_group)
    wait_for_lag = Awaited(Broker.wait_for_lag)

    async def snapshot(self) -> AsyncSnapshot:
        """Remember the state."""
        return AsyncSnapshot(await asyncio.to_thread(self.wrapped.snapshot))

    async def restore(self, snapshot: AsyncSnapshot | Snapshot) -> None:
        """Return to a snapshot of this broker, whoever took it."""
        taken = snapshot.wrapped if isinstance(snapshot, AsyncSnapshot) else snapshot
        await asyncio.to_thread(self.wrapped.restore, taken)

    @property
    def clock(self) -> AsyncClock:
        """The clock by which brokers expire what clients leave."""
        return AsyncClock(self.wrapped.clock)

    @property
    def network(self) -> AsyncNetwork:
        """The network between its brokers."""
        return AsyncNetwork(self.wrapped.network)

    @property
    def topics(self) -> AsyncTopics:
        """Its topics."""
        return AsyncTopics(self.wrapped.topics)

    @property
    def groups(self) -> AsyncGroups:
        """Its groups."""
        return AsyncGroups(self.wrapped.groups)

    @property
    def faults(self) -> AsyncFaults:
        """The rules by which requests fail."""
        return AsyncFaults(self.wrapped.faults)

    @property
    def journal(self) -> AsyncJournal:
        """What clients have asked."""
        return AsyncJournal(self.wrapped.journal)
