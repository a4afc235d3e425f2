"""Several clients at work while connections are cut and sessions end: nobody is told a lie."""

import asyncio
import random
from typing import Final

import pytest

from odradek.broker.coordination.current import CurrentSession
from odradek.broker.coordination.interface import (
    BadVersion,
    Check,
    CoordinationError,
    CoordinationLost,
    Create,
    MultiFailed,
    NodeExists,
    Op,
    SessionExpired,
    Set,
    Stat,
    WatchEvent,
)
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.coordination.zookeeper_session import ZooKeeperSession
from tests.broker.coordination.proxies import Proxy
from tests.broker.coordination.zookeepers import end_session, new_chroot, sessions_of
from tests.kafka.zookeeper import ZooKeeper
from tests.support.awaiting import until

pytestmark = pytest.mark.java

CLIENTS: Final = 4
CUTS: Final = 200
EXPIRIES: Final = 20
TIMEOUT_MS: Final = 6_000


class Client:
    """One broker's work: it registers, counts, appends and watches."""

    def __init__(self, number: int, current: CurrentSession) -> None:
        self.number = number
        self.current = current
        self.written = 0
        self.versions: set[int] = set()
        self.appended: set[str] = set()
        self.unknown_counts = 0
        self.unknown_appends = 0
        self.seen = b""
        self.lost = 0
        self._tasks: set[asyncio.Task[None]] = set()
        current.on_lost.append(self._on_lost)
        current.on_renewed.append(self.begin)

    async def begin(self) -> None:
        """Register and watch, in each session anew."""
        path = f"/ids/{self.number}"
        while True:
            try:
                await self.current.create(path, b"", ephemeral=True)
                break
            except NodeExists:  # of the session before
                stat = await self.current.exists(path)
                if stat is not None and stat.ephemeral_owner == self.current.id:
                    break  # ours after all: the answer to an earlier attempt is not known
                if stat is not None:
                    await self.current.delete(path)
            except CoordinationLost:
                continue
        await self._read()

    async def count(self, stop: asyncio.Event) -> None:
        """Raise a number, each time in a way that only this client can have done it."""
        while not stop.is_set():
            try:
                _, stat = await self.current.get("/count")
            except SessionExpired:
                await asyncio.sleep(0.001)
                continue
            self.written += 1
            data = b"%d-%d" % (self.number, self.written)
            ops: list[Op] = [Check("/fence"), Set("/count", data, stat.version)]
            is_live = self.current.is_live
            try:
                result = (await self.current.multi(ops))[1]
            except MultiFailed as failed:
                assert isinstance(failed.error, BadVersion)
            except (SessionExpired, CoordinationLost):
                self.unknown_counts += is_live
            else:
                assert isinstance(result, Stat)
                assert result.version == stat.version + 1
                self.versions.add(result.version)

    async def append(self, stop: asyncio.Event) -> None:
        """Make nodes with numbers, and of one's own."""
        while not stop.is_set():
            try:
                is_live = self.current.is_live
                name = await self.current.create("/log/n-", b"x", sequential=True)
                assert name not in self.appended
                self.appended.add(name)
            except (SessionExpired, CoordinationLost):
                self.unknown_appends += is_live
                await asyncio.sleep(0.001)

    def _on_lost(self) -> None:
        self.lost += 1
        assert not self.current.is_live

    async def _read(self) -> None:
        try:
            self.seen, _ = await self.current.get("/count", self._on_event)
        except SessionExpired:
            return  # `begin` reads again

    def _on_event(self, event: WatchEvent) -> None:
        task = asyncio.create_task(self._read())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def test_a_storm(server: ZooKeeper) -> None:
    asyncio.run(asyncio.wait_for(_storm(server), 200))


async def _storm(server: ZooKeeper) -> None:
    chroot, failures = new_chroot(), list[CoordinationError]()
    async with Proxy(server.port) as proxy:
        store = ZooKeeperStore(proxy.address + chroot, connection_timeout_ms=10_000)
        calm = await ZooKeeperStore(
            server.address + chroot, connection_timeout_ms=10_000
        ).open_session(TIMEOUT_MS)
        await calm.multi([Create(path) for path in ("/ids", "/log", "/count", "/fence")])
        clients = [
            Client(number, CurrentSession(store, TIMEOUT_MS, on_failure=failures.append))
            for number in range(CLIENTS)
        ]
        for client in clients:
            await client.current.open()
            await client.begin()
        stop = asyncio.Event()
        work = [
            asyncio.create_task(job(stop))
            for client in clients
            for job in (client.count, client.append)
        ]
        expiries = await _disturb(server, proxy, clients)
        stop.set()
        await asyncio.gather(*work)
        assert failures == []
        assert sum(client.lost for client in clients) >= expiries * 0.8  # two at once count once
        await _check(clients, calm)
        await store.close()
        assert await calm.children("/ids") == []
        await calm.close()


async def _disturb(server: ZooKeeper, proxy: Proxy, clients: list[Client]) -> int:
    chance, ended = random.Random(1), set[int]()
    while proxy.cuts < CUTS or len(ended) < EXPIRIES:
        await asyncio.sleep(chance.uniform(0.02, 0.09))
        if proxy.cuts * EXPIRIES >= (len(ended) + 1) * CUTS:
            session = chance.choice(clients).current._session
            # One that has ended may be there for some time: it can't be lost twice.
            client_id = session.client_id if isinstance(session, ZooKeeperSession) else None
            if client_id is not None and client_id[0] not in ended:
                assert isinstance(session, ZooKeeperSession)
                await asyncio.to_thread(end_session, server, session)
                # Its client may have come back before its end, which then ends nothing.
                if f"{client_id[0]:#x}" not in await asyncio.to_thread(sessions_of, server):
                    ended.add(client_id[0])
        proxy.cut()
    return len(ended)


async def _check(clients: list[Client], calm: ZooKeeperSession) -> None:
    data, stat = await calm.get("/count")
    versions = [version for client in clients for version in client.versions]
    assert len(versions) == len(set(versions))
    unknown = sum(client.unknown_counts for client in clients)
    assert len(versions) <= stat.version <= len(versions) + unknown
    names = [name for client in clients for name in client.appended]
    assert len(names) == len(set(names))
    there = {f"/log/{name}" for name in await calm.children("/log")}
    assert set(names) <= there
    assert len(there) <= len(names) + sum(client.unknown_appends for client in clients)
    for client in clients:
        await until(lambda: client.seen == data and client.current.is_live)  # noqa: B023
        registered = await calm.exists(f"/ids/{client.number}")
        assert registered is not None
        assert registered.ephemeral_owner == client.current.id
    print(f"{len(versions)} counts, {len(names)} appends, {unknown} unknown")
