"""ZooKeeper stores for the contract, each test in a chroot of its own."""

from itertools import count

from kazoo.client import KazooClient

from odradek.broker.coordination.interface import Session
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.coordination.zookeeper_session import ZooKeeperSession
from tests.kafka.zookeeper import ZooKeeper

NUMBERS = count()


class ZooKeeperStores:
    """Stores in one chroot of a server."""

    def __init__(self, server: ZooKeeper, address: str = "") -> None:
        self.server = server
        self.chroot = f"/test-{next(NUMBERS)}/kafka"
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
        if self._store is not None:
            await self._store.close()
            self._store = None


def end_session(server: ZooKeeper, session: ZooKeeperSession) -> None:
    """Take the session over and close it: its own client finds it expired."""
    client = KazooClient(hosts=server.address, client_id=session.client_id, timeout=10)
    client.start()
    client.stop()
    client.close()
