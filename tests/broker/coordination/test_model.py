"""Random use of the embedded store, against a model."""

import asyncio
from collections.abc import Coroutine
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from odradek.broker.coordination.embedded import EmbeddedSession, EmbeddedStore
from odradek.broker.coordination.interface import (
    Check,
    CoordinationError,
    Create,
    Delete,
    MultiFailed,
    Op,
    Set,
    WatchEvent,
)
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime
from tests.broker.coordination.model import Model

T = TypeVar("T")
paths = st.sampled_from(["/a", "/b", "/a/x", "/a/y", "/a/x/z", "/b/x", "/b/n0000000000"])
data = st.sampled_from([b"", b"1", b"22"])
versions = st.sampled_from([-1, -1, 0, 1])
ops: st.SearchStrategy[Op] = st.one_of(
    st.builds(Create, paths, data, st.booleans(), st.just(False)),
    st.builds(Create, paths, data, st.booleans(), st.booleans()),
    st.builds(Set, paths, data, versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)
SESSIONS = 3


class Client:
    """A session, and what its one watch heard."""

    def __init__(self, session: EmbeddedSession, heard: list[tuple[int, WatchEvent]]) -> None:
        self.session = session
        self._heard = heard

    def watch(self, event: WatchEvent) -> None:
        self._heard.append((self.session.id, event))


class StoreMachine(RuleBasedStateMachine):
    """Rules call the store and the model; the invariant compares all there is."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.journal = MemoryJournal()
        self.model = Model()
        self.heard: list[tuple[int, WatchEvent]] = []
        self.clients: list[Client] = []
        self.run(self.start())

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        return self.runner.run(coroutine)

    async def start(self) -> None:
        self.store = EmbeddedStore("memory", runtime=fake_runtime(), journal=self.journal)
        await self.store.start()
        self.clients = [await self.client() for _ in range(SESSIONS)]

    async def client(self) -> Client:
        client = Client(await self.store.open_session(1), self.heard)
        return client

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()

    def expected_of(self, client: Client, some: list[Op]) -> tuple[int, type] | None:
        return self.model.apply(some, client.session.id)

    async def outcome_of(self, client: Client, some: list[Op]) -> tuple[int, type] | None:
        try:
            await client.session.multi(some)
        except MultiFailed as failed:
            return failed.index, type(failed.error)
        return None

    @rule(index=st.integers(0, SESSIONS - 1), some=st.lists(ops, min_size=1, max_size=4))
    def transaction(self, index: int, some: list[Op]) -> None:
        client = self.clients[index]
        assert self.run(self.outcome_of(client, some)) == self.expected_of(client, some)

    @rule(calls=st.lists(st.tuples(st.integers(0, SESSIONS - 1), ops), min_size=2, max_size=8))
    def many_at_once(self, calls: list[tuple[int, Op]]) -> None:
        async def gather() -> list[tuple[int, type] | None]:
            outcomes = [self.outcome_of(self.clients[index], [op]) for index, op in calls]
            return await asyncio.gather(*outcomes)

        expected = [self.expected_of(self.clients[index], [op]) for index, op in calls]
        assert self.run(gather()) == expected

    @rule(index=st.integers(0, SESSIONS - 1), path=paths)
    def watch_data(self, index: int, path: str) -> None:
        client = self.clients[index]
        self.run(client.session.exists(path, client.watch))
        self.model.data_watches.add((client.session.id, path))

    @rule(index=st.integers(0, SESSIONS - 1), path=paths)
    def watch_children(self, index: int, path: str) -> None:
        client = self.clients[index]
        try:
            names = self.run(client.session.children(path, client.watch))
        except CoordinationError:
            assert path not in self.model.nodes
            return
        assert names == self.model.children(path)
        self.model.child_watches.add((client.session.id, path))

    @rule(index=st.integers(0, SESSIONS - 1), expires=st.booleans())
    def end_session(self, index: int, expires: bool) -> None:
        client = self.clients[index]
        self.model.end_session(client.session.id)
        if expires:
            self.run(self.store.expire_session(client.session.id))
        else:
            self.run(client.session.close())
        self.clients[index] = self.run(self.client())

    @rule()
    def restart(self) -> None:
        self.run(self.store.close())
        self.model.restart()
        self.run(self.start())

    @invariant()
    def same(self) -> None:
        self.run(self.compare())

    async def compare(self) -> None:
        session = await self.store.open_session(1)
        for path, node in self.model.nodes.items():
            found, stat = await session.get(path)
            children = await session.children(path)
            assert (found, stat.version) == (node.data, node.version)
            assert (stat.ephemeral_owner, stat.cversion) == (node.owner, node.changed)
            assert children == self.model.children(path)
            assert stat.num_children == len(children)
            assert stat.data_length == len(found)
            assert stat.czxid <= stat.mzxid <= self.store.zxid
            assert stat.czxid <= stat.pzxid <= self.store.zxid
        await session.close()
        assert sorted_runs(self.heard) == sorted_runs(self.model.heard)


def sorted_runs(heard: list[tuple[int, WatchEvent]]) -> list[tuple[int, WatchEvent]]:
    """Several watches of one event may be called in any order."""
    runs: list[list[tuple[int, WatchEvent]]] = []
    for session, event in heard:
        if not runs or runs[-1][0][1] != event:
            runs.append([])
        runs[-1].append((session, event))
    return [each for run in runs for each in sorted(run, key=lambda pair: pair[0])]


TestStoreMachine = pytest.mark.slow(StoreMachine.TestCase)
StoreMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
