"""Entering a cluster that lives in a real ZooKeeper."""

import asyncio
import os
import signal
import sys
from collections.abc import Iterator

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.coordination.current import CurrentSession
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.member.membership import CannotJoin, Membership, make_startup_paths
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.zookeepers import ZooKeeperStores
from tests.kafka.zookeeper import ZooKeeper, zookeeper

pytestmark = pytest.mark.java

TIMEOUT_MS = 6_000  # no session ends while something stands still for some seconds

REGISTERED = """
import asyncio, sys
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from tests.broker.member.test_membership_zookeeper import TIMEOUT_MS, at
from odradek.broker.member.membership import Membership

async def main() -> None:
    store = ZooKeeperStore(sys.argv[1], connection_timeout_ms=10_000)
    session = await store.open_session(TIMEOUT_MS)
    print(await Membership(session, 3, session_timeout_ms=TIMEOUT_MS).register(at(9)), flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with zookeeper(tick_time_ms=500) as running:
        yield running


@pytest.fixture
def stores(server: ZooKeeper) -> ZooKeeperStores:
    return ZooKeeperStores(server)


def at(port: int) -> znodes.BrokerRegistration:
    endpoint = znodes.RegisteredEndpoint("PLAINTEXT", "h", port, "PLAINTEXT")
    return znodes.BrokerRegistration((endpoint,), 77)


async def joined(
    store: ZooKeeperStore,
) -> tuple[CurrentSession, Membership, list[int], asyncio.Event]:
    """Registered now and after every end of the session; the epochs so far, and when one comes."""
    session = CurrentSession(store, TIMEOUT_MS)
    await session.open()
    await make_startup_paths(session)
    membership = Membership(session, 3, session_timeout_ms=TIMEOUT_MS)
    epochs: list[int] = []
    renewed = asyncio.Event()

    async def renew() -> None:
        epochs.append(await membership.register(at(9)))
        renewed.set()

    session.on_lost.append(membership.lost)
    session.on_renewed.append(renew)
    await renew()
    return session, membership, epochs, renewed


@asynchronous
async def test_after_the_end_of_a_session(stores: ZooKeeperStores) -> None:
    store = await stores.open()
    session, membership, epochs, renewed = await joined(store)
    for count in (2, 3):
        await stores.expire(store.sessions[0])
        async with asyncio.timeout(30):
            while len(epochs) < count:
                await renewed.wait()
                renewed.clear()
        data, stat = await session.get(znodes.broker_path(3))
        assert membership.broker_epoch == epochs[-1] == stat.czxid > epochs[-2]
        assert stat.ephemeral_owner == session.id
        assert stat.version == 1
        assert znodes.BrokerRegistration.decode(data) == at(9)
    await session.close()
    await stores.close()


@asynchronous
async def test_after_a_kill(stores: ZooKeeperStores) -> None:
    """The node of the dead process is waited for; that of a living one is not taken away."""
    store = await stores.open()
    other = await store.open_session(TIMEOUT_MS)
    await make_startup_paths(other)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REGISTERED, stores.address + stores.chroot,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    first = int(await process.stdout.readline())
    with pytest.raises(CannotJoin, match="broker id 3 is taken by a broker at PLAINTEXT://h:9"):
        await Membership(other, 3, session_timeout_ms=-3_500).register(at(10))
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    # A busy ZooKeeper may end the session late.
    membership = Membership(other, 3, session_timeout_ms=30_000)
    assert await membership.register(at(9)) > first
    await stores.close()
