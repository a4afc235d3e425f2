"""The session that survives its expiry, over the embedded store."""

import asyncio
from collections.abc import Callable

import pytest

from odradek.broker.coordination.current import CurrentSession
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import (
    BadVersion,
    Check,
    CoordinationError,
    CoordinationLost,
    Create,
    NodeExists,
    Session,
    SessionExpired,
    StoreError,
    WatchEvent,
)
from odradek.broker.pause import Pause
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime
from tests.broker.coordination.stores import TIMEOUT_MS
from tests.support.awaiting import turns, until


class Recorder:
    """What a component of the broker does: registers anew, notes when."""

    def __init__(self, current: CurrentSession, heard: list[str], name: str) -> None:
        self._current = current
        self._heard = heard
        self._name = name
        current.on_lost.append(self.lost)
        current.on_renewed.append(self.renewed)

    def lost(self) -> None:
        self._heard.append(f"{self._name} lost, live: {self._current.is_live}")

    async def renewed(self) -> None:
        await self._current.create(f"/{self._name}", ephemeral=True)
        self._heard.append(f"{self._name} renewed")


async def open_store(journal: MemoryJournal | None = None) -> EmbeddedStore:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=journal or MemoryJournal())
    await store.start()
    return store


@asynchronous
async def test_it_is_a_session() -> None:
    store = await open_store()
    opened = CurrentSession(store, TIMEOUT_MS)
    current: Session = opened
    await opened.open()
    assert await current.create("/a", b"0") == "/a"
    assert (await current.set("/a", b"1", 0)).version == 1
    with pytest.raises(BadVersion):
        await current.delete("/a", 0)
    await current.multi([Check("/a", 1), Create("/a/b", ephemeral=True)])
    data, stat = await current.get("/a")
    assert (data, stat, await current.children("/a")) == (b"1", await current.exists("/a"), ["b"])
    owned = await current.exists("/a/b")
    assert owned is not None
    assert owned.ephemeral_owner == current.id
    await current.close()
    await current.close()
    with pytest.raises(SessionExpired):
        await current.get("/a")
    other = await store.open_session(TIMEOUT_MS)
    assert await other.children("/a") == []
    await store.close()


@asynchronous
async def test_a_session_that_expires_is_replaced() -> None:
    store, heard = await open_store(), list[str]()
    current = CurrentSession(store, TIMEOUT_MS)
    await current.open()
    first, second = Recorder(current, heard, "a"), Recorder(current, heard, "b")
    await first.renewed()
    await second.renewed()
    heard.clear()
    old_id = current.id
    await store.expire_session(old_id)
    assert heard[:2] == ["a lost, live: False", "b lost, live: False"]
    await until(lambda: len(heard) == 4)
    assert heard[2:] == ["a renewed", "b renewed"]
    stat = await current.exists("/a")
    assert stat is not None
    assert stat.ephemeral_owner == current.id != old_id
    await current.close()
    await store.close()


class HeldStore:
    """Opens sessions only when it may."""

    def __init__(self, store: EmbeddedStore) -> None:
        self._store = store
        self.may_open = asyncio.Event()
        self.may_open.set()
        self.errors: list[CoordinationError] = []
        self.opened = 0

    async def open_session(
        self, timeout_ms: int, on_end: Callable[[CoordinationError], None] | None = None
    ) -> Session:
        await self.may_open.wait()
        if self.errors:
            raise self.errors.pop(0)
        self.opened += 1
        return await self._store.open_session(timeout_ms, on_end)

    async def close(self) -> None:
        await self._store.close()


@asynchronous
async def test_between_two_sessions_nothing_goes_out() -> None:
    store = await open_store()
    held = HeldStore(store)
    current = CurrentSession(held, TIMEOUT_MS)
    await current.open()
    held.may_open.clear()
    old_id = current.id
    await store.expire_session(old_id)
    for _ in range(5):
        await asyncio.sleep(0)
        with pytest.raises(SessionExpired, match="no new one yet"):
            await current.create("/a")
    assert current.id == old_id
    held.may_open.set()
    await until(lambda: current.is_live)
    await current.create("/a")
    await current.close()
    await store.close()


@asynchronous
async def test_it_tries_again_while_the_store_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("odradek.broker.coordination.current.RETRY_S", 0)
    store = await open_store()
    held, failures = HeldStore(store), list[CoordinationError]()
    current = CurrentSession(held, TIMEOUT_MS, on_failure=failures.append)
    await current.open()
    held.errors = [StoreError("out of reach") for _ in range(3)]
    await store.expire_session(current.id)
    await until(lambda: held.opened == 2 and current.is_live)
    assert (held.errors, held.opened, failures) == ([], 2, [])
    await current.close()
    await store.close()


@asynchronous
async def test_a_session_that_expires_while_it_is_being_renewed() -> None:
    store, heard = await open_store(), list[str]()
    current = CurrentSession(store, TIMEOUT_MS)
    await current.open()
    expiries = 3

    async def fragile() -> None:
        nonlocal expiries
        heard.append("begin")
        if expiries:
            expiries -= 1
            await store.expire_session(current.id)
            if expiries % 2:
                await current.get("/")  # raises
            else:
                return  # notices nothing
        heard.append("end")

    current.on_lost.append(lambda: heard.append("lost"))
    current.on_renewed.append(fragile)
    await store.expire_session(current.id)
    await until(lambda: "end" in heard)
    assert heard == ["lost"] + ["begin", "lost"] * 3 + ["begin", "end"]
    await store.expire_session(current.id)  # a later one is replaced just so
    await until(lambda: heard.count("end") == 2)
    await current.close()
    await store.close()


@asynchronous
async def test_a_renewal_that_cannot_be_mended_is_told_once() -> None:
    store, failures = await open_store(), list[CoordinationError]()
    current = CurrentSession(store, TIMEOUT_MS, on_failure=failures.append)
    await current.open()
    other = await store.open_session(TIMEOUT_MS)

    async def taken() -> None:
        await other.create("/ids", ephemeral=True)
        await current.create("/ids", ephemeral=True)

    current.on_renewed.append(taken)
    await store.expire_session(current.id)
    await until(lambda: bool(failures))
    assert [type(failure) for failure in failures] == [NodeExists]
    await current.close()
    await store.close()


@asynchronous
async def test_a_store_that_is_gone_is_told_once() -> None:
    journal, failures, heard = MemoryJournal(), list[CoordinationError](), list[str]()
    store = await open_store(journal)
    current = CurrentSession(store, TIMEOUT_MS, on_failure=failures.append)
    current.on_lost.append(lambda: heard.append("lost"))
    await current.open()
    journal.error = OSError(28, "No space left on device")
    with pytest.raises(CoordinationLost):
        await current.create("/a")
    await until(lambda: bool(failures))
    assert [type(failure) for failure in failures] == [CoordinationLost]
    assert heard == ["lost"]
    await current.close()
    await store.close()


@asynchronous
async def test_close_ends_a_renewal() -> None:
    store = await open_store()
    held, heard = HeldStore(store), list[str]()
    current = CurrentSession(held, TIMEOUT_MS)
    await current.open()
    Recorder(current, heard, "a")
    held.may_open.clear()
    await store.expire_session(current.id)
    await asyncio.sleep(0)
    await current.close()
    held.may_open.set()
    await asyncio.sleep(0)
    assert heard == ["a lost, live: False"]
    assert held.opened == 1
    await store.close()


@asynchronous
async def test_a_first_session_that_cannot_be_opened() -> None:
    store = await open_store()
    held = HeldStore(store)
    held.errors = [StoreError("out of reach")]
    with pytest.raises(StoreError, match="out of reach"):
        await CurrentSession(held, TIMEOUT_MS).open()
    await store.close()


@asynchronous
async def test_a_pause_holds_operations_and_events_of_watches() -> None:
    store, pause, seen = await open_store(), Pause(), list[str]()
    current = CurrentSession(store, TIMEOUT_MS, pause=pause)
    await current.open()
    other = await store.open_session(TIMEOUT_MS)

    def watch(event: WatchEvent) -> None:
        seen.append(event.path)

    for _ in range(2):  # equal watches are one
        await current.exists("/a", watch)
    pause.begin()
    reading = asyncio.ensure_future(current.exists("/a"))
    await other.create("/a")
    assert (seen, reading.done()) == ([], False)
    pause.end()
    assert seen == ["/a"]
    assert await reading is not None
    await current.exists("/a", watch)
    await other.set("/a", b"1")
    await until(lambda: seen == ["/a", "/a"])
    await current.close()
    await store.close()


@asynchronous
async def test_a_session_that_expires_in_a_pause_is_replaced_after_it() -> None:
    store, pause, heard = await open_store(), Pause(), list[str]()
    current = CurrentSession(store, TIMEOUT_MS, pause=pause)
    await current.open()
    Recorder(current, heard, "a")
    pause.begin()
    pause.begin()
    waiting = asyncio.ensure_future(current.create("/b"))
    await store.expire_session(current.id)
    other = await store.open_session(TIMEOUT_MS)
    assert await other.children("/") == []
    await turns()
    assert heard == []  # as of a client whose process was stopped, or whose packets are lost
    pause.end()
    with pytest.raises(SessionExpired):
        await waiting
    await until(lambda: heard == ["a lost, live: False", "a renewed"])
    await current.close()
    await store.close()
