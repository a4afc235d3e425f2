"""What ZooKeeper's store does when connections are lost, answers are missing, sessions expire."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from odradek.broker.coordination.interface import (
    BadVersion,
    Check,
    CoordinationError,
    CoordinationLost,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NodeExists,
    NoNode,
    Session,
    SessionExpired,
    Set,
    Stat,
    StoreError,
    WatchEvent,
)
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.coordination.zookeeper_session import ZooKeeperSession
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.proxies import Proxy
from tests.broker.coordination.stores import Seen
from tests.broker.coordination.zookeepers import end_session, new_chroot, sessions_of
from tests.kafka.process import free_port
from tests.kafka.zookeeper import ZooKeeper
from tests.support.awaiting import until

pytestmark = pytest.mark.java

TIMEOUT_MS = 10_000
"""The longest that is granted: a server that is started has a JVM to start meanwhile."""
BUSY_S = 0.4
"""For how long a loop has not dropped its state: other threads could do much meanwhile."""


@dataclass
class Scene:
    """A session behind a proxy, and another client of the same tree that nothing disturbs."""

    proxy: Proxy
    session: ZooKeeperSession
    other: ZooKeeperSession
    ends: list[CoordinationError]

    async def lose_answer(
        self, operation: Awaitable[object], has_effect: Callable[[], Awaitable[bool]]
    ) -> object:
        """Run an operation whose effect is seen by the other, and whose answer is lost."""
        self.proxy.answers.clear()
        running = asyncio.ensure_future(operation)
        await until(has_effect)
        assert not running.done()
        self.proxy.cut()
        self.proxy.answers.set()
        return await running


@asynccontextmanager
async def scene(server: ZooKeeper, in_flight_max: int = 100) -> AsyncIterator[Scene]:
    chroot = new_chroot()
    async with Proxy(server.port) as proxy:
        store = ZooKeeperStore(
            proxy.address + chroot, connection_timeout_ms=10_000, in_flight_max=in_flight_max
        )
        direct = ZooKeeperStore(server.address + chroot, connection_timeout_ms=10_000)
        ends: list[CoordinationError] = []
        session = await store.open_session(TIMEOUT_MS, ends.append)
        other = await direct.open_session(TIMEOUT_MS)
        try:
            yield Scene(proxy, session, other, ends)
        finally:
            await store.close()
            await direct.close()


@asynchronous
async def test_a_session_outlives_a_server_that_stays_silent(server: ZooKeeper) -> None:
    """As one does that is just starting: it takes a connection, and never answers there."""
    async with scene(server) as at:
        at.proxy.answers.clear()
        at.proxy.cut()
        await at.proxy.has_lost.wait()
        at.proxy.answers.set()
        assert await at.session.exists("/") is not None
        assert at.ends == []


@asynchronous
async def test_a_create_whose_answer_is_lost(server: ZooKeeper) -> None:
    async with scene(server) as at:

        async def is_there() -> bool:
            return await at.other.exists("/a") is not None

        assert await at.lose_answer(at.session.create("/a", b"x", ephemeral=True), is_there) == "/a"
        assert at.proxy.cuts == 1
        stat = await at.other.exists("/a")
        assert stat is not None
        assert stat.ephemeral_owner == at.session.id
        await at.session.delete("/a")
        assert await at.lose_answer(at.session.create("/a", b"y"), is_there) == "/a"
        with pytest.raises(NodeExists):
            await at.session.create("/a", b"y")


@asynchronous
async def test_a_create_that_another_was_first_with(server: ZooKeeper) -> None:
    async with scene(server) as at:
        at.proxy.is_open = False
        at.proxy.cut()
        creating = asyncio.create_task(at.session.create("/a", b"mine"))
        await at.other.create("/a", b"theirs")
        at.proxy.is_open = True
        with pytest.raises(NodeExists):
            await creating


@asynchronous
async def test_a_sequential_create_whose_answer_is_lost(server: ZooKeeper) -> None:
    """Ours is known by its owner; without one, another client may have made it."""
    async with scene(server) as at:
        await at.session.create("/q")
        await at.other.create("/q/n-", b"x", sequential=True)

        async def is_there() -> bool:
            return len(await at.other.children("/q")) == 2

        creating = at.session.create("/q/n-", b"x", sequential=True, ephemeral=True)
        assert await at.lose_answer(creating, is_there) == "/q/n-0000000001"
        await at.session.delete("/q/n-0000000001")
        with pytest.raises(CoordinationLost, match="unknown"):
            await at.lose_answer(at.session.create("/q/n-", b"x", sequential=True), is_there)
        assert len(await at.session.children("/q")) == 2


@asynchronous
async def test_a_set_whose_answer_is_lost(server: ZooKeeper) -> None:
    async with scene(server) as at:
        await at.session.create("/a", b"0")

        async def is_set() -> bool:
            return (await at.other.get("/a"))[0] == b"1"

        stat = await at.lose_answer(at.session.set("/a", b"1", 0), is_set)
        assert isinstance(stat, Stat)
        assert stat.version == 1
        assert stat == await at.other.exists("/a")


@asynchronous
async def test_a_set_whose_answer_is_lost_and_whose_trace_is_gone(server: ZooKeeper) -> None:
    async with scene(server) as at:
        await at.session.create("/a", b"0")

        async def is_overwritten() -> bool:
            if (await at.other.get("/a"))[0] != b"1":
                return False
            await at.other.set("/a", b"2")
            return True

        with pytest.raises(CoordinationLost, match="unknown"):
            await at.lose_answer(at.session.set("/a", b"1", 0), is_overwritten)
        assert (await at.session.get("/a"))[0] == b"2"


@asynchronous
async def test_a_set_that_another_was_first_with(server: ZooKeeper) -> None:
    async with scene(server) as at:
        await at.session.create("/a", b"0")
        at.proxy.is_open = False
        at.proxy.cut()
        setting = asyncio.create_task(at.session.set("/a", b"1", 0))
        await at.other.set("/a", b"2", 0)
        at.proxy.is_open = True
        with pytest.raises(BadVersion):
            await setting


@asynchronous
async def test_a_delete_whose_answer_is_lost(server: ZooKeeper) -> None:
    """One of a version may have failed, and another client may have deleted the node."""
    async with scene(server) as at:

        async def is_gone() -> bool:
            return await at.other.exists("/a") is None

        await at.session.create("/a")
        assert await at.lose_answer(at.session.delete("/a"), is_gone) is None
        with pytest.raises(NoNode):
            await at.session.delete("/a")
        await at.session.create("/a")
        with pytest.raises(CoordinationLost):
            await at.lose_answer(at.session.delete("/a", 0), is_gone)


@asynchronous
async def test_a_multi_whose_answer_is_lost(server: ZooKeeper) -> None:
    """As the election of a controller: a node of ours, and an epoch that is raised."""
    async with scene(server) as at:
        await at.session.create("/epoch", b"0")
        await at.session.create("/changes")

        async def is_raised() -> bool:
            return (await at.other.get("/epoch"))[0] == b"1"

        elected = await at.lose_answer(
            at.session.multi(
                [
                    Create("/controller", b"1", ephemeral=True),
                    Set("/epoch", b"1", 0),
                    Create("/changes/c-", b"x", sequential=True),
                ]
            ),
            is_raised,
        )
        assert isinstance(elected, list)
        assert elected == ["/controller", await at.other.exists("/epoch"), "/changes/c-0000000000"]
        deleted = await at.lose_answer(
            at.session.multi([Check("/epoch", 1), Set("/epoch", b"2", 1), Delete("/controller")]),
            lambda: _is(at.other, "/epoch", b"2"),
        )
        assert isinstance(deleted, list)
        with pytest.raises(MultiFailed) as caught:
            await at.session.multi([Check("/epoch", 1)])
        assert isinstance(caught.value.error, BadVersion)


async def _is(session: Session, path: str, data: bytes) -> bool:
    return (await session.get(path))[0] == data


@asynchronous
async def test_what_was_cut_off_keeps_its_order(server: ZooKeeper) -> None:
    async with scene(server) as at:
        at.proxy.answers.clear()
        heard: list[str] = []
        calls: list[tuple[str, Awaitable[object]]] = [
            ("create", at.session.create("/a", b"0")),
            ("set 1", at.session.set("/a", b"1", 0)),
            ("get 1", at.session.get("/a")),
            ("set 2", at.session.set("/a", b"2", 1)),
            ("exists", at.session.exists("/b")),
            ("create b", at.session.create("/b")),
            ("children", at.session.children("/")),
        ]

        async def run(name: str, call: Awaitable[object]) -> object:
            try:
                return await call
            finally:
                heard.append(name)

        running = [asyncio.create_task(run(name, call)) for name, call in calls]
        await until(lambda: at.other.exists("/b"))
        at.proxy.cut()
        at.proxy.answers.set()
        results = await asyncio.gather(*running, return_exceptions=True)
        # The node was changed since: that it was created, and set once, can't be told any more.
        assert [type(result) for result in (results[0], results[1])] == [CoordinationLost] * 2
        assert isinstance(results[3], Stat)
        assert results[5:] == ["/b", ["a", "b"]]
        assert heard == [name for name, _ in calls]


@asynchronous
async def test_watches_fire_after_a_lost_connection(server: ZooKeeper) -> None:
    async with scene(server) as at:
        await at.session.multi([Create("/a"), Create("/b"), Create("/b/c")])
        seen = {name: Seen() for name in ("data", "missing", "children", "both")}
        await at.session.get("/a", seen["data"])
        await at.session.exists("/new", seen["missing"])
        await at.session.children("/b", seen["children"])
        await at.session.get("/b", seen["both"])
        await at.session.children("/b", seen["both"])
        at.proxy.is_open = False
        at.proxy.cut()
        await at.other.multi([Set("/a", b"x"), Create("/new"), Delete("/b/c")])
        at.proxy.is_open = True
        assert (await at.session.get("/a"))[0] == b"x"
        changed, child = EventKind.CHANGED, EventKind.CHILD
        assert {name: watch.events for name, watch in seen.items()} == {
            "data": [WatchEvent(changed, "/a")],
            "missing": [WatchEvent(changed, "/new")],
            "children": [WatchEvent(child, "/b")],
            "both": [WatchEvent(changed, "/b"), WatchEvent(child, "/b")],
        }
        await at.session.get("/a", seen["data"])
        await at.other.multi([Set("/a", b"y"), Create("/b/d"), Set("/b", b"z")])
        await seen["data"].wait(2)
        await at.session.exists("/a")
        assert [len(watch.events) for watch in seen.values()] == [2, 1, 1, 2]


@asynchronous
async def test_no_change_is_missed_by_who_reads_again(server: ZooKeeper) -> None:
    """Whoever keeps the rule ends with what is there, wherever the connection is cut."""
    async with scene(server) as at:
        await at.other.create("/n", b"0")
        latest = b""
        tasks: set[asyncio.Task[None]] = set()

        async def read() -> None:
            nonlocal latest
            latest, _ = await at.session.get("/n", on_event)

        def on_event(event: WatchEvent) -> None:
            tasks.add(asyncio.create_task(read()))

        await read()
        for number in range(1, 301):
            await at.other.set("/n", b"%d" % number)
            if number % 15 == 0:
                await at.session.exists("/")  # connected
                at.proxy.cut()
        await until(lambda: latest == b"300")
        assert at.proxy.cuts == 20
        await asyncio.gather(*tasks)


@asynchronous
async def test_the_thread_waits_until_the_loop_has_dropped_its_state(server: ZooKeeper) -> None:
    """And no other session is opened by then, or ever, by this client."""
    async with scene(server) as at:
        held: list[tuple[bool, set[str]]] = []
        store = ZooKeeperStore(server.address + new_chroot(), connection_timeout_ms=10_000)

        def on_end(error: CoordinationError) -> None:
            time.sleep(BUSY_S)
            held.append((session._client.handler.stopped.is_set(), sessions_of(server) - before))

        session = await store.open_session(TIMEOUT_MS, on_end)
        before = sessions_of(server)
        end_session(server, session)
        await until(lambda: bool(held))
        assert held == [(False, set())]
        await until(session._client.handler.stopped.is_set)
        with pytest.raises(SessionExpired):
            await session.get("/")
        assert sessions_of(server) < before
        assert at.ends == []
        await store.close()


@asynchronous
async def test_operations_that_wait_when_the_session_expires(server: ZooKeeper) -> None:
    async with scene(server) as at:
        at.proxy.is_open = False
        end_session(server, at.session)
        at.proxy.cut()
        calls = [asyncio.create_task(at.session.create(f"/{number}")) for number in range(300)]
        await asyncio.sleep(0)
        at.proxy.is_open = True
        results = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(result) for result in results} == {SessionExpired}
        assert [type(end) for end in at.ends] == [SessionExpired]
        assert await at.other.children("/") == []


@asynchronous
async def test_a_thousand_reads_are_answered_in_order(server: ZooKeeper) -> None:
    async with scene(server, in_flight_max=7) as at:
        await at.other.create("/n", b"0")
        heard: list[int] = []
        in_flight_max = 0

        async def read(number: int) -> None:
            nonlocal in_flight_max
            await at.session.get("/n")
            in_flight_max = max(in_flight_max, len(at.session._sender._in_flight))
            heard.append(number)

        await asyncio.gather(*map(read, range(1000)))
        assert heard == list(range(1000))
        assert in_flight_max == 7


@asynchronous
async def test_a_server_that_comes_back(server: ZooKeeper) -> None:
    """Its sessions live on, and so does ours."""
    async with scene(server) as at:
        await at.session.create("/e", b"x", ephemeral=True)
        server.kill()
        reading = asyncio.create_task(at.session.get("/e"))
        await until(lambda: not at.session._sender._is_connected.is_set())
        server.start()
        _, stat = await reading
        assert stat.ephemeral_owner == at.session.id
        assert at.ends == []


@asynchronous
async def test_an_unreachable_zookeeper_is_one_sentence(caplog: pytest.LogCaptureFixture) -> None:
    address = f"127.0.0.1:{free_port()}"
    store = ZooKeeperStore(f"{address}/kafka", connection_timeout_ms=1200)
    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(StoreError, match=rf"^ZooKeeper cannot be reached at {address} within 1.2 s"),
    ):
        await store.open_session(TIMEOUT_MS)
    (line,) = caplog.messages
    assert (
        line
        == f"zookeeper cannot be reached at {address} (Connection refused): trying for 0 s more"
    )
    await store.close()
