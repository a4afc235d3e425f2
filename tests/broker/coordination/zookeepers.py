"""ZooKeeper stores for the contract, each test in a chroot of its own."""

import asyncio
import random
from dataclasses import dataclass
from itertools import count

from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError

from odradek.broker.coordination.interface import (
    CoordinationLost,
    Session,
    SessionExpired,
    StoreError,
)
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.coordination.zookeeper_session import ZooKeeperSession
from tests.broker.coordination.proxies import Proxy
from tests.kafka.zookeeper import ZooKeeper

NUMBERS = count()
TAKEOVERS_MAX = 5


def new_chroot() -> str:
    return f"/test-{next(NUMBERS)}/kafka"


@dataclass
class Tally:
    """What was inflicted."""

    cuts: int = 0
    expiries: int = 0
    excused: int = 0


class ZooKeeperStores:
    """Stores in one chroot of a server."""

    def __init__(self, server: ZooKeeper, address: str = "") -> None:
        self.server = server
        self.chroot = new_chroot()
        self.address = address or server.address
        self._store: ZooKeeperStore | None = None

    async def open(self) -> ZooKeeperStore:
        if self._store is None:
            self._store = ZooKeeperStore(self.address + self.chroot, connection_timeout_ms=10_000)
        return self._store

    async def expire(self, session: Session) -> None:
        assert isinstance(session, ZooKeeperSession)
        end_session(self.server, session)

    async def restart(self) -> ZooKeeperStore:
        await self.close()
        self.server.kill()
        self.server.start()
        return await self.open()

    async def close(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            await store.close()


class DisturbedStores(ZooKeeperStores):
    """The same behind a proxy that cuts all connections again and again, and ends sessions.

    A test may end with one of the errors that this excuses; then it runs again, elsewhere.
    """

    def __init__(self, server: ZooKeeper, tally: Tally, *, seed: int) -> None:
        super().__init__(server)
        self._tally = tally
        self._random = random.Random(seed)
        self._proxy: Proxy | None = None
        self._disturber: asyncio.Task[None] | None = None
        self._attempts = 0
        self._has_lost = False

    async def open(self) -> ZooKeeperStore:
        if self._proxy is None:
            self._proxy = await Proxy(self.server.port).__aenter__()
            self.address = self._proxy.address
            self._disturber = asyncio.create_task(self._disturb())
        return await super().open()

    async def close(self) -> None:
        proxy, disturber = self._proxy, self._disturber
        self._proxy = self._disturber = None  # an attempt that follows has another event loop
        if disturber is not None:
            disturber.cancel()
            await asyncio.wait([disturber])
        try:
            await super().close()
        finally:
            if proxy is not None:
                self._tally.cuts += proxy.cuts
                await proxy.__aexit__()
        if disturber is not None and not disturber.cancelled():
            disturber.result()

    def is_excused(self, error: Exception) -> bool:
        """Whether the test may try again: it was told why, or it lost a session."""
        told = isinstance(error, SessionExpired | CoordinationLost | StoreError)
        has_lost = isinstance(error, AssertionError) and self._has_lost
        self.chroot, self._has_lost = new_chroot(), False
        self._attempts += 1
        self._tally.excused += 1
        return (told or has_lost) and self._attempts < 20

    async def _disturb(self) -> None:
        assert self._proxy is not None
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            # A slow machine needs longer gaps to connect, or to send a large node, at all.
            patience = max(1.0, loop.time() - began_s) ** 2 * (self._attempts + 1) ** 2
            await asyncio.sleep(self._random.uniform(0.0, 0.02) * patience)
            if self._random.random() < 0.1 and self._attempts < 5:
                await self._end_a_session()
            self._proxy.cut()

    async def _end_a_session(self) -> None:
        sessions = [] if self._store is None else [s for s in self._store.sessions if s.client_id]
        if sessions:
            self._tally.expiries += 1
            self._has_lost = True
            end_session(self.server, self._random.choice(sessions))


def sessions_of(server: ZooKeeper) -> set[str]:
    """The ids of those that it knows, as it writes them."""
    words = server.dump().split("ephemeral nodes dump")[0].split()
    return {word for word in words if word.startswith("0x")}


def end_session(server: ZooKeeper, session: ZooKeeperSession) -> None:
    """Take the session over and close it: its own client finds it expired."""
    for _ in range(TAKEOVERS_MAX):
        if f"{session.id:#x}" not in sessions_of(server):
            return
        client = KazooClient(hosts=server.address, client_id=session.client_id, timeout=10)
        try:
            client.start()
        except KazooTimeoutError:
            continue  # its own client has taken it back in between
        finally:
            client.stop()
            client.close()
    raise AssertionError(f"session {session.id:#x} does not end")
