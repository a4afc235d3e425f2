"""The embedded store keeps the contract; and what is its own: groups, failures, files."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import odradek.broker.coordination.journal as journal_module
from odradek.broker.coordination.embedded import EmbeddedSession, EmbeddedStore
from odradek.broker.coordination.interface import (
    BadVersion,
    CoordinationError,
    CoordinationLost,
    Create,
    NoNode,
    Session,
    SessionExpired,
    StoreError,
)
from odradek.broker.coordination.journal import Journal, SqliteJournal
from odradek.broker.runtime import Runtime
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.contract import StoreContract
from tests.broker.coordination.fakes import GatedOffload, MemoryJournal, fake_runtime
from tests.broker.coordination.stores import TIMEOUT_MS, Seen
from tests.support.awaiting import turns


class EmbeddedStores:
    """Stores of one journal, for the contract."""

    def __init__(self, journal: Journal, runtime: Runtime) -> None:
        self._journal = journal
        self._runtime = runtime
        self._store: EmbeddedStore | None = None

    async def open(self) -> EmbeddedStore:
        if self._store is None:
            self._store = EmbeddedStore("memory", runtime=self._runtime, journal=self._journal)
            await self._store.start()
        return self._store

    async def expire(self, session: Session) -> None:
        assert self._store is not None
        await self._store.expire_session(session.id)

    async def restart(self) -> EmbeddedStore:
        await self.close()
        return await self.open()

    async def close(self) -> None:
        if self._store is not None:
            await self._store.close()
            self._store = None


class TestInMemory(StoreContract):
    """Without threads: every commit takes one turn of the loop."""

    @pytest.fixture
    def stores(self) -> EmbeddedStores:
        return EmbeddedStores(MemoryJournal(), fake_runtime())


class TestOnDisk(StoreContract):
    """As the broker runs it, except that nobody waits for the disk."""

    @pytest.fixture
    def stores(
        self, tmp_path: Path, system: Runtime, monkeypatch: pytest.MonkeyPatch
    ) -> EmbeddedStores:
        monkeypatch.setattr(journal_module, "SYNCHRONOUS", "OFF")
        return EmbeddedStores(SqliteJournal(tmp_path / "store.sqlite3"), system)


async def start(
    journal: Journal, runtime: Runtime | None = None
) -> tuple[EmbeddedStore, EmbeddedSession]:
    store = EmbeddedStore("memory", runtime=runtime or fake_runtime(), journal=journal)
    await store.start()
    return store, await store.open_session(TIMEOUT_MS)


@asynchronous
async def test_what_is_queued_is_committed_together() -> None:
    journal, offload = MemoryJournal(), GatedOffload()
    store, session = await start(journal, fake_runtime(offload))
    offload.hold()
    calls = [asyncio.create_task(session.create(f"/n{index}")) for index in range(100)]
    await turns()
    late = [asyncio.create_task(session.create(f"/late{index}")) for index in range(100)]
    await turns()
    assert not any(call.done() for call in calls)
    offload.release()
    await asyncio.gather(*calls, *late)
    assert journal.commit_count == 2
    assert len(journal.nodes) == 201
    await store.close()


@asynchronous
async def test_nothing_is_shown_before_it_is_durable() -> None:
    journal, offload = MemoryJournal(), GatedOffload()
    store, session = await start(journal, fake_runtime(offload))
    reader = await store.open_session(TIMEOUT_MS)
    await session.create("/a", b"old")
    seen = Seen()
    await reader.get("/a", seen)
    offload.hold()
    calls: list[asyncio.Task[object]] = [
        asyncio.create_task(session.set("/a", b"new")),
        asyncio.create_task(reader.get("/a")),
        asyncio.create_task(reader.exists("/missing")),
        asyncio.create_task(session.multi([])),
    ]
    failing = [
        asyncio.create_task(reader.get("/missing")),
        asyncio.create_task(reader.set("/a", b"", version=7)),
    ]
    await turns()
    calls.append(asyncio.create_task(reader.children("/a")))
    failing.append(asyncio.create_task(reader.get("/missing")))
    failing.append(asyncio.create_task(reader.set("/a", b"", version=7)))
    await turns()
    assert not any(call.done() for call in (*calls, *failing))
    assert seen.events == []
    offload.release()
    await asyncio.gather(*calls)
    assert len(seen.events) == 1
    assert journal.commit_count == 2
    errors = await asyncio.gather(*failing, return_exceptions=True)
    assert [type(error) for error in errors] == [NoNode, BadVersion, NoNode, BadVersion]
    await store.close()


@asynchronous
async def test_reads_are_answered_at_once_when_nothing_is_under_way() -> None:
    offload = GatedOffload()
    store, session = await start(MemoryJournal(), fake_runtime(offload))
    await session.create("/a")
    await turns()
    offload.hold()
    reading = session.exists("/a")
    with pytest.raises(StopIteration):
        reading.send(None)
    offload.release()
    await store.close()


@asynchronous
async def test_a_failed_commit_ends_the_store(caplog: pytest.LogCaptureFixture) -> None:
    journal, offload, ends = MemoryJournal(), GatedOffload(), list[CoordinationError]()
    store, session = await start(journal, fake_runtime(offload))
    other = await store.open_session(TIMEOUT_MS, ends.append)
    await session.create("/a")
    seen = Seen()
    await other.get("/a", seen)
    offload.hold()
    journal.error = OSError(28, "No space left on device")
    first = [asyncio.create_task(session.set("/a", b"x")), asyncio.create_task(other.get("/a"))]
    await turns()
    second = [asyncio.create_task(other.set("/a", b"y")), asyncio.create_task(other.get("/no"))]
    await turns()
    offload.release()
    results = await asyncio.gather(*first, *second, return_exceptions=True)
    late = await asyncio.gather(
        session.get("/a"), store.open_session(TIMEOUT_MS), return_exceptions=True
    )
    for result in (*results, *late, *ends):
        assert isinstance(result, CoordinationLost)
        assert result.__cause__ is journal.error
    assert (len(results), len(ends), seen.events) == (4, 1, [])
    assert "store lost" in caplog.text
    await session.close()
    await store.close()
    await store.close()


@asynchronous
async def test_close_finishes_what_waits() -> None:
    journal, offload = MemoryJournal(), GatedOffload()
    store, session = await start(journal, fake_runtime(offload))
    offload.hold()
    creating = asyncio.create_task(session.create("/a"))
    await turns()
    queued = asyncio.create_task(session.create("/b"))
    await turns()
    closing = asyncio.create_task(store.close())
    await turns()
    assert not closing.done()
    with pytest.raises(CoordinationLost, match="is closed"):
        await session.get("/a")
    offload.release()
    await closing
    assert (await creating, await queued) == ("/a", "/b")
    assert journal.nodes.keys() == {"/", "/a", "/b"}


@asynchronous
async def test_a_failing_watch_reaches_the_loop_and_nobody_else() -> None:
    errors: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: errors.append(context["exception"])
    )
    store, session = await start(MemoryJournal())
    broken, seen = ZeroDivisionError(), Seen()

    def fail(_: object) -> None:
        raise broken

    await session.exists("/a", fail)
    await session.exists("/a", seen)
    await session.create("/a")
    assert errors == [broken]
    assert len(seen.events) == 1
    await store.close()


@asynchronous
async def test_a_watch_is_not_called_after_its_session_ended() -> None:
    """Even if the change came first, and only its commit was still to be done."""
    offload = GatedOffload()
    store, session = await start(MemoryJournal(), fake_runtime(offload))
    watcher = await store.open_session(TIMEOUT_MS)
    seen = Seen()
    await watcher.exists("/a", seen)
    offload.hold()
    creating = asyncio.create_task(session.create("/a"))
    await turns()
    closing = asyncio.create_task(watcher.close())
    await turns()
    offload.release()
    await asyncio.gather(creating, closing)
    assert seen.events == []
    await session.get("/a", seen)
    await session.close()
    assert len(store._watches) == 0
    await store.close()


@asynchronous
async def test_ephemeral_nodes_raise_the_durable_transaction_number() -> None:
    """The broker epoch is a czxid of an ephemeral node."""
    journal = MemoryJournal()
    store, session = await start(journal)
    await session.create("/ids")
    await session.create("/ids/1", ephemeral=True)
    _, stat = await session.get("/ids/1")
    await store.close()
    assert set(journal.nodes) == {"/", "/ids"}
    store, session = await start(journal)
    assert await session.children("/ids") == []
    await session.create("/ids/1", ephemeral=True)
    assert (await session.get("/ids/1"))[1].czxid > stat.czxid
    await store.close()


@asynchronous
async def test_a_topic_of_a_thousand_partitions_takes_few_commits() -> None:
    journal = MemoryJournal()
    store, session = await start(journal)
    ops = [Create("/t"), *[Create(f"/t/{index}", b"{}") for index in range(2_999)]]
    groups = [ops[start : start + 500] for start in range(0, len(ops), 500)]
    await asyncio.gather(*[session.multi(group) for group in groups])
    assert journal.commit_count <= len(groups)
    assert len(await session.children("/t")) == 2_999
    await store.close()


@asynchronous
async def test_a_damaged_tree_is_one_sentence() -> None:
    journal = MemoryJournal()
    store, session = await start(journal)
    await session.multi([Create("/a"), Create("/a/b")])
    await store.close()
    del journal.nodes["/a"]
    with pytest.raises(StoreError, match="memory is damaged: node /a/b has no parent"):
        await start(journal)


@pytest.mark.slow
@pytest.mark.untraced
def test_sqlite_is_not_imported_before_it_is_needed() -> None:
    program = "import sys, odradek.broker.coordination.embedded; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.slow
@asynchronous
async def test_the_nodes_of_an_abandoned_session_go_when_it_expires() -> None:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    dead = await store.open_session(TIMEOUT_MS)
    other = await store.open_session(TIMEOUT_MS)
    await dead.create("/node", ephemeral=True)
    seen = Seen()
    await other.get("/node", seen)
    store.abandon_session(dead.id, after_ms=200)
    with pytest.raises(SessionExpired):
        await dead.create("/late")
    assert await other.exists("/node") is not None
    await seen.wait(1)
    assert await other.exists("/node") is None
    assert await other.exists("/late") is None
    store.abandon_session(other.id, after_ms=60_000)
    await store.close()  # waits for nobody
