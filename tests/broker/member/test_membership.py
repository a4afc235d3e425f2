"""Who a broker is, and how it enters a cluster; on the embedded store, with simulated time."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, cast

import pytest

from odradek.broker.config import Config
from odradek.broker.coordination import znodes
from odradek.broker.coordination.current import CurrentSession
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import Session, Stat, Watch
from odradek.broker.member.membership import (
    CannotJoin,
    Membership,
    agree_on_cluster_id,
    make_path,
    make_startup_paths,
    refuse_authorizer,
    registration_of,
    settle_broker_id,
)
from odradek.broker.member.scram_secret import scram_secret
from odradek.storage.directory.meta_properties import MetaProperties
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime
from tests.sim.loop import SimLoop, simulate

TIMEOUT_MS = 18_000
WAIT_S = 22


class World:
    """A store, and the sessions of several brokers."""

    def __init__(self, store: EmbeddedStore, session: Session) -> None:
        self.store = store
        self.session = session

    async def membership(self, broker_id: int) -> tuple[Membership, Session]:
        """A broker with a session of its own."""
        session = await self.store.open_session(TIMEOUT_MS)
        return Membership(session, broker_id, session_timeout_ms=TIMEOUT_MS), session

    async def stat(self, broker_id: int) -> Stat | None:
        return await self.session.exists(znodes.broker_path(broker_id))


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    session = await store.open_session(TIMEOUT_MS)
    await make_startup_paths(session)
    yield World(store, session)
    await store.close()


def run(test: Callable[[World], Awaitable[None]]) -> float:
    """The seconds that it took."""

    async def main(loop: SimLoop) -> float:
        async with world() as w:
            start = loop.time()
            await test(w)
            return loop.time() - start

    return simulate(main, 1).value


def at(port: int, *, rack: str | None = None) -> znodes.BrokerRegistration:
    endpoint = znodes.RegisteredEndpoint("PLAINTEXT", "h", port, "PLAINTEXT")
    return znodes.BrokerRegistration((endpoint,), 77, rack=rack)


# Authorizers.


@pytest.mark.parametrize("path", ["/kafka-acl", "/kafka-acl-extended"])
def test_nodes_of_an_authorizer_are_refused(path: str) -> None:
    """Without any ACL too: it may deny everything but to its super users."""

    async def test(w: World) -> None:
        await refuse_authorizer(w.session)
        await make_path(w.session, path)
        with pytest.raises(CannotJoin, match=rf"nodes of an authorizer \({path}\)"):
            await refuse_authorizer(w.session)

    run(test)


# What all brokers must agree on.


def test_the_brokers_of_a_cluster_share_a_secret_that_is_made_once() -> None:
    async def test(w: World) -> None:
        _, other = await w.membership(3)
        made = iter([b"1" * 32, b"2" * 32, b"3" * 32])
        sessions = (w.session, other)
        both = await asyncio.gather(
            *(scram_secret(each, lambda _: next(made)) for each in sessions)
        )
        assert both[0] == both[1] == await scram_secret(other, lambda _: next(made))

    run(test)


# The entry.


def test_the_epoch_is_that_of_the_node() -> None:
    async def test(w: World) -> None:
        membership, session = await w.membership(3)
        assert membership.broker_epoch == -1
        epoch = await membership.register(at(9, rack="r"))
        data, stat = await w.session.get(znodes.broker_path(3))
        assert epoch == membership.broker_epoch == stat.czxid
        assert stat.version == 1
        assert stat.ephemeral_owner == session.id
        assert znodes.BrokerRegistration.decode(data) == at(9, rack="r")
        await session.close()
        assert await w.stat(3) is None

    run(test)


def test_a_node_of_our_own_is_made_again() -> None:
    """The answer to the first creation was lost, or the end of our session is not noticed yet."""

    async def test(w: World) -> None:
        membership, _ = await w.membership(3)
        first = await membership.register(at(9))
        second = await membership.register(at(10))
        stat = await w.stat(3)
        assert stat is not None
        assert second == stat.czxid > first
        assert stat.version == 1
        membership.lost()
        assert membership.broker_epoch == -1

    assert run(test) < 1


def test_after_every_end_of_the_session() -> None:
    async def main(_: SimLoop) -> list[int]:
        async with world() as w:
            session = CurrentSession(w.store, TIMEOUT_MS)
            await session.open()
            membership = Membership(session, 3, session_timeout_ms=TIMEOUT_MS)
            epochs: list[int] = []
            again = asyncio.Event()

            async def renew() -> None:
                epochs.append(await membership.register(at(9)))
                again.set()

            session.on_lost.append(membership.lost)
            session.on_renewed.append(renew)
            await renew()
            for _round in range(3):
                again.clear()
                await w.store.expire_session(session.id)
                await again.wait()
            stat = await w.stat(3)
            assert stat is not None
            assert stat.czxid == membership.broker_epoch == epochs[-1]
            await session.close()
            return epochs

    epochs = simulate(main, 1).value
    assert len(epochs) == 4
    assert epochs == sorted(set(epochs))


# Those who are in the way.


@pytest.mark.parametrize(("broker_id", "port"), [(3, 10), (4, 9)])
def test_a_broker_that_died_is_waited_for(
    broker_id: int, port: int, caplog: pytest.LogCaptureFixture
) -> None:
    """By id and by address; with one line, and no longer than its session lasts."""

    async def test(w: World) -> None:
        old, old_session = await w.membership(3)
        await old.register(at(9))
        new, _ = await w.membership(broker_id)
        task = asyncio.create_task(new.register(at(port)))
        await asyncio.sleep(17.5)
        assert not task.done()
        await w.store.expire_session(old_session.id)
        epoch = await task
        stat = await w.stat(broker_id)
        assert stat is not None
        assert stat.czxid == epoch

    with caplog.at_level(logging.WARNING):
        assert 17.5 < run(test) < 17.6
    assert len(caplog.records) == 1
    assert "waiting up to 22 s" in caplog.text


@pytest.mark.parametrize(
    ("broker_id", "port", "sentence"),
    [
        (3, 10, "broker id 3 is taken by a broker at PLAINTEXT://h:9"),
        (4, 9, "the address PLAINTEXT://h:9 is taken by broker 3"),
    ],
)
def test_a_broker_that_lives_is_not_driven_out(broker_id: int, port: int, sentence: str) -> None:
    async def test(w: World) -> None:
        old, _ = await w.membership(3)
        epoch = await old.register(at(9))
        new, _ = await w.membership(broker_id)
        with pytest.raises(CannotJoin, match=sentence):
            await new.register(at(port))
        assert await w.session.children(znodes.BROKER_IDS) == ["3"]
        stat = await w.stat(3)
        assert stat is not None
        assert stat.czxid == epoch

    assert WAIT_S <= run(test) < WAIT_S + 1


def test_two_that_come_at_the_same_time() -> None:
    async def test(w: World) -> None:
        memberships = [await w.membership(3) for _ in range(3)]
        found = await asyncio.gather(
            *(one.register(at(9)) for one, _ in memberships), return_exceptions=True
        )
        assert sorted(type(result).__name__ for result in found) == [
            "CannotJoin",
            "CannotJoin",
            "int",
        ]

    run(test)


class Late:
    """A session whose `exists` is held up by something that happens first."""

    def __init__(self, session: Session, first: Callable[[], Awaitable[object]]) -> None:
        self._session = session
        self._first = first

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        await self._first()
        return await self._session.exists(path, watch)


def test_one_that_is_a_little_quicker() -> None:
    """Its node is not taken away."""

    async def test(w: World) -> None:
        quick, _ = await w.membership(3)
        _, session = await w.membership(3)

        async def first() -> None:
            if quick.broker_epoch < 0:
                await quick.register(at(9))

        late = cast(Session, Late(session, first))
        with pytest.raises(CannotJoin):
            await Membership(late, 3, session_timeout_ms=TIMEOUT_MS).register(at(10))
        stat = await w.stat(3)
        assert stat is not None
        assert stat.czxid == quick.broker_epoch

    run(test)


def test_nodes_that_cannot_be_read() -> None:
    """Another broker's is no obstacle; in our own place it stands for somebody."""

    async def test(w: World) -> None:
        await w.session.create(znodes.broker_path(7), b"{", ephemeral=True)
        membership, _ = await w.membership(3)
        await membership.register(at(9))
        other, _ = await w.membership(7)
        with pytest.raises(CannotJoin, match=r"broker id 7 is taken .* unreadable"):
            await other.register(at(10))

    run(test)


# The cluster's id.


def fresh(count: int) -> bytes:
    return bytes(range(count))


def test_cluster_id() -> None:
    async def test(w: World) -> None:
        first = await agree_on_cluster_id(w.session, None, fresh)
        assert first == "AAECAwQFBgcICQoLDA0ODw"
        assert await agree_on_cluster_id(w.session, first, fresh, is_own_store=False) == first
        for own in (True, False):
            with pytest.raises(CannotJoin, match=f"cluster another, but .* cluster {first}"):
                await agree_on_cluster_id(w.session, "another", fresh, is_own_store=own)

    run(test)


def test_a_store_without_cluster() -> None:
    """Our own takes the id of the directory; an empty ZooKeeper is the wrong one."""

    async def refused(w: World) -> None:
        with pytest.raises(CannotJoin, match=r"kept.*zookeeper.connect may be wrong"):
            await agree_on_cluster_id(w.session, "kept", fresh, is_own_store=False)
        assert await w.session.exists(znodes.CLUSTER_ID) is None
        assert await agree_on_cluster_id(w.session, "kept", fresh) == "kept"

    run(refused)


def test_startup_paths_may_be_there() -> None:
    async def test(w: World) -> None:
        await make_startup_paths(w.session)
        for path in znodes.STARTUP_PATHS:
            assert await w.session.exists(path) is not None

    run(test)


# The broker's id.


def test_broker_ids() -> None:
    """The one that is set, then that of the directory, then one that was never given out."""

    async def test(w: World) -> None:
        owner = MetaProperties(5, "c")
        drawn = Config({"broker.id": "-1"})
        assert await settle_broker_id(Config({"broker.id": "2"}), owner, w.session) == 2
        assert await settle_broker_id(drawn, owner, w.session) == 5
        assert await settle_broker_id(drawn, None, w.session) == 1001
        assert await settle_broker_id(drawn, None, w.session) == 1002
        higher = Config({"broker.id": "-1", "reserved.broker.max.id": "7"})
        assert await settle_broker_id(higher, None, w.session) == 10

    run(test)


def test_with_zookeeper_ids_are_drawn() -> None:
    assert Config({"zookeeper.connect": "h:1"}).broker_id == -1
    assert Config({"zookeeper.connect": "h:1", "broker.id": "4"}).broker_id == 4
    assert Config().broker_id == 0


def test_what_a_broker_says_of_itself() -> None:
    config = Config(
        {
            "listeners": "PLAINTEXT://:0,A://127.0.0.1:0,B://h:7",
            "advertised.listeners": "B://[::1]:9,PLAINTEXT://:0,A://127.0.0.1:0",
            "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "broker.rack": "r1",
        }
    )
    ports = {"PLAINTEXT": 41, "A": 42, "B": 43}
    registration = registration_of(config, ports, own_host="me", wall_ms=5)
    assert [str(end) for end in registration.endpoints] == [
        "B://[::1]:9",
        "PLAINTEXT://me:41",
        "A://127.0.0.1:42",
    ]
    assert registration.rack == "r1"
    assert registration.timestamp_ms == 5
