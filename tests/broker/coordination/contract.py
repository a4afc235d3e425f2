"""What every coordination store has to do: subclass `StoreContract`, give it a `stores` fixture."""

import asyncio

import pytest

from odradek.broker.coordination.interface import (
    REQUEST_SIZE_BYTES_MAX,
    BadArguments,
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    Op,
    RequestTooLarge,
    SessionExpired,
    Set,
    Stat,
    WatchEvent,
)
from tests.broker.coordination.contract_watches import ConcurrencyContract, WatchContract
from tests.broker.coordination.stores import (
    TIMEOUT_MS,
    Seen,
    Stores,
    on_stores,
    open_session,
    settle,
    stat_of,
)


class NodeContract:
    """Nodes, versions, numbers."""

    @on_stores
    async def test_create_and_get(self, stores: Stores) -> None:
        session = await open_session(stores)
        assert await session.create("/a", b"one") == "/a"
        data, stat = await session.get("/a")
        assert data == b"one"
        assert stat == await session.exists("/a")
        assert stat.czxid == stat.mzxid == stat.pzxid > 0
        assert (stat.version, stat.cversion, stat.ephemeral_owner) == (0, 0, 0)
        assert (stat.data_length, stat.num_children) == (3, 0)
        assert stat.ctime_ms == stat.mtime_ms > 0

    @on_stores
    async def test_node_without_data(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        data, stat = await session.get("/a")
        assert (data, stat.data_length) == (b"", 0)

    @on_stores
    async def test_set_raises_version_and_mzxid(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"one")
        created = await stat_of(session, "/a")
        first = await session.set("/a", b"three")
        second = await session.set("/a", b"three", version=1)
        assert (first.version, second.version) == (1, 2)
        assert created.mzxid < first.mzxid < second.mzxid
        assert second.czxid == second.pzxid == created.czxid
        assert await session.get("/a") == (b"three", second)

    @on_stores
    async def test_children_count_in_the_parent(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        await session.create("/a/c")
        await session.create("/a/b")
        assert await session.children("/a") == ["b", "c"]
        parent, child = await stat_of(session, "/a"), await stat_of(session, "/a/b")
        assert (parent.num_children, parent.cversion, parent.version) == (2, 2, 0)
        assert parent.pzxid == child.czxid > parent.mzxid
        await session.delete("/a/b")
        after = await stat_of(session, "/a")
        assert (after.num_children, after.cversion) == (1, 3)
        assert after.pzxid > parent.pzxid
        assert await session.children("/a") == ["c"]

    @on_stores
    async def test_children_of_children_are_not_children(self, stores: Stores) -> None:
        session = await open_session(stores)
        for path in ("/a", "/a/b", "/a/b/c", "/ab"):
            await session.create(path)
        assert await session.children("/a") == ["b"]
        assert await session.children("/a/b/c") == []
        assert (await stat_of(session, "/a")).num_children == 1

    @on_stores
    async def test_delete(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        await session.delete("/a")
        assert await session.exists("/a") is None
        await session.create("/a")
        assert (await stat_of(session, "/a")).version == 0

    @on_stores
    async def test_missing_nodes(self, stores: Stores) -> None:
        session = await open_session(stores)
        assert await session.exists("/a") is None
        for call in (
            session.get("/a"),
            session.children("/a"),
            session.set("/a", b""),
            session.delete("/a"),
            session.create("/a/b"),
            session.create("/a/b", sequential=True),
        ):
            with pytest.raises(NoNode):
                await call

    @on_stores
    async def test_refused_changes(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"kept")
        await session.create("/a/b")
        with pytest.raises(NodeExists):
            await session.create("/a")
        with pytest.raises(NodeExists):
            await session.create("/")
        with pytest.raises(NotEmpty):
            await session.delete("/a")
        with pytest.raises(BadVersion):
            await session.set("/a", b"new", version=1)
        with pytest.raises(BadVersion):
            await session.delete("/a/b", version=1)
        assert (await session.get("/a"))[0] == b"kept"
        assert await session.children("/a") == ["b"]
        await session.delete("/a/b", version=0)

    @pytest.mark.parametrize(
        "path",
        [
            *("", "a", "/a/", "//a", "/a//b", "/.", "/a/..", "/a/./b"),
            *("/\0", "/a\n", "/\x7f", "/\ue000", "/\U0001f600", "/\ud800", "/\uffff"),
        ],
    )
    @on_stores
    async def test_bad_paths(self, stores: Stores, path: str) -> None:
        session = await open_session(stores)
        for call in (
            session.get(path),
            session.exists(path),
            session.children(path),
            session.create(path),
            session.set(path, b""),
            session.delete(path),
        ):
            with pytest.raises(BadArguments):
                await call
        with pytest.raises(MultiFailed) as caught:
            await session.multi([Create("/ok"), Create(path)])
        assert (caught.value.index, type(caught.value.error)) == (1, BadArguments)
        assert await session.exists("/ok") is None

    @on_stores
    async def test_the_root_stays(self, stores: Stores) -> None:
        session = await open_session(stores)
        with pytest.raises(BadArguments):
            await session.delete("/")
        assert await session.exists("/") is not None

    @pytest.mark.parametrize(
        "name", ["...", ".a", "a b", "<default>", "u%20ser", "\u00e4\u4e16", "~"]
    )
    @on_stores
    async def test_unusual_names(self, stores: Stores, name: str) -> None:
        session = await open_session(stores)
        await session.create("/a")
        assert await session.create(f"/a/{name}", b"x") == f"/a/{name}"
        assert await session.children("/a") == [name]

    @on_stores
    async def test_too_much_data(self, stores: Stores) -> None:
        session = await open_session(stores)
        large = bytes(REQUEST_SIZE_BYTES_MAX)
        half = bytes(REQUEST_SIZE_BYTES_MAX // 2)
        await session.create("/a", half)
        for call in (
            session.create("/b", large),
            session.set("/a", large),
            session.multi([Create("/b", half), Create("/c", half)]),
        ):
            with pytest.raises(RequestTooLarge):
                await call
        assert await session.exists("/b") is None


class SequentialContract:
    """Names that the store completes."""

    @on_stores
    async def test_suffix_counts_all_creations(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/q")
        assert await session.create("/q/a-", sequential=True) == "/q/a-0000000000"
        assert await session.create("/q/b-", sequential=True) == "/q/b-0000000001"
        await session.create("/q/other")
        await session.delete("/q/a-0000000000")
        assert await session.create("/q/a-", sequential=True) == "/q/a-0000000003"

    @on_stores
    async def test_name_of_digits_only(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/q")
        assert await session.create("/q/", sequential=True) == "/q/0000000000"

    @on_stores
    async def test_each_client_gets_its_own(self, stores: Stores) -> None:
        sessions = [await open_session(stores) for _ in range(5)]
        await sessions[0].create("/q")
        paths = await asyncio.gather(
            *[session.create("/q/n", sequential=True) for _ in range(10) for session in sessions]
        )
        assert sorted(paths) == [f"/q/n{index:010d}" for index in range(50)]


class MultiContract:
    """All or nothing."""

    @on_stores
    async def test_results(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"one")
        await session.create("/gone")
        results = await session.multi(
            [
                Check("/a", 0),
                Create("/a/b", b"two"),
                Create("/a/s-", sequential=True),
                Set("/a", b"three", 0),
                Delete("/gone"),
            ]
        )
        changed = results[3]
        assert isinstance(changed, Stat)
        assert results == [None, "/a/b", "/a/s-0000000001", changed, None]
        assert changed.version == 1
        assert await session.exists("/gone") is None
        parent, child = await stat_of(session, "/a"), await stat_of(session, "/a/b")
        assert child.czxid == parent.pzxid == parent.mzxid  # one transaction

    @on_stores
    async def test_later_operations_see_earlier_ones(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.multi(
            [
                Create("/a"),
                Create("/a/b", b"x"),
                Set("/a/b", b"y", 0),
                Check("/a/b", 1),
                Delete("/a/b", 1),
                Create("/a/b", b"z"),
            ]
        )
        data, stat = await session.get("/a/b")
        assert (data, stat.version) == (b"z", 0)

    @pytest.mark.parametrize(
        ("op", "error"),
        [
            (Check("/a", 7), BadVersion),
            (Check("/missing"), NoNode),
            (Create("/a"), NodeExists),
            (Create("/missing/b"), NoNode),
            (Create("/e/b"), NoChildrenForEphemerals),
            (Set("/a", b"", 7), BadVersion),
            (Delete("/a"), NotEmpty),
            (Delete("/missing"), NoNode),
        ],
        ids=str,
    )
    @on_stores
    async def test_nothing_happens_if_one_fails(
        self, stores: Stores, op: Op, error: type[CoordinationError]
    ) -> None:
        session = await open_session(stores)
        await session.multi([Create("/a", b"kept"), Create("/a/b"), Create("/e", ephemeral=True)])
        before = [await session.get(path) for path in ("/a", "/a/b", "/e")]
        seen = Seen()
        await session.get("/a", seen)
        await session.children("/a", seen)
        await session.exists("/new", seen)
        good: list[Op] = [
            Create("/new"),
            Create("/a/c", ephemeral=True),
            Set("/a", b"new"),
            Delete("/a/b"),
        ]
        restore = Create("/a/b")  # so that only `op` is to blame
        with pytest.raises(MultiFailed) as caught:
            await session.multi([*good, restore, op, Create("/late")])
        assert (caught.value.index, type(caught.value.error)) == (5, error)
        assert [await session.get(path) for path in ("/a", "/a/b", "/e")] == before
        assert await session.children("/a") == ["b"]
        assert await session.exists("/new") is None
        await settle(session)
        assert seen.events == []

    @on_stores
    async def test_empty(self, stores: Stores) -> None:
        session = await open_session(stores)
        assert await session.multi([]) == []


class SessionContract:
    """Sessions and what they own."""

    @on_stores
    async def test_ephemeral_node(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/e", b"x", ephemeral=True)
        assert (await stat_of(session, "/e")).ephemeral_owner == session.id != 0
        with pytest.raises(NoChildrenForEphemerals):
            await session.create("/e/child")
        assert (await session.set("/e", b"y")).version == 1
        await session.delete("/e")
        await session.create("/e")
        assert (await stat_of(session, "/e")).ephemeral_owner == 0

    @on_stores
    async def test_close_deletes_only_its_own_ephemerals(self, stores: Stores) -> None:
        ending, other = await open_session(stores), await open_session(stores)
        assert ending.id != other.id
        await ending.create("/persistent")
        await ending.create("/mine", ephemeral=True)
        await ending.create("/persistent/mine-", ephemeral=True, sequential=True)
        await other.create("/others", ephemeral=True)
        await ending.close()
        await ending.close()
        assert await other.exists("/mine") is None
        assert await other.children("/persistent") == []
        assert await other.exists("/others") is not None

    @on_stores
    async def test_a_closed_session_does_nothing(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.close()
        for call in (
            session.get("/"),
            session.exists("/"),
            session.children("/"),
            session.create("/a"),
            session.set("/", b""),
            session.delete("/a"),
            session.multi([Check("/")]),
        ):
            with pytest.raises(SessionExpired):
                await call

    @on_stores
    async def test_expiry(self, stores: Stores) -> None:
        ends: list[CoordinationError] = []
        ended = asyncio.Event()

        def on_end(error: CoordinationError) -> None:
            ends.append(error)
            ended.set()

        session = await (await stores.open()).open_session(TIMEOUT_MS, on_end)
        other = await open_session(stores)
        await session.create("/e", ephemeral=True)
        seen = Seen()
        await other.exists("/e", seen)
        await stores.expire(session)
        await seen.wait(1)
        await ended.wait()
        assert seen.events == [WatchEvent(EventKind.DELETED, "/e")]
        assert [type(error) for error in ends] == [SessionExpired]
        with pytest.raises(SessionExpired):
            await session.exists("/e")
        await other.create("/e", ephemeral=True)

    @on_stores
    async def test_an_orderly_end_is_not_reported(self, stores: Stores) -> None:
        ends: list[CoordinationError] = []
        store = await stores.open()
        closed = await store.open_session(TIMEOUT_MS, ends.append)
        await store.open_session(TIMEOUT_MS, ends.append)
        await closed.close()
        await stores.close()
        assert ends == []

    @on_stores
    async def test_restart(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"one")
        await session.create("/a/s-", sequential=True)
        await session.create("/a/b", b"two")
        await session.create("/gone")
        await session.set("/a", b"three")
        await session.delete("/gone")
        before, old_id = await session.get("/a"), session.id
        last = await stat_of(session, await session.create("/last"))
        await stores.restart()
        session = await open_session(stores)
        data, stat = await session.get("/a")
        assert data == b"three"
        for name in ("czxid", "mzxid", "version", "ctime_ms", "mtime_ms", "data_length"):
            assert getattr(stat, name) == getattr(before[1], name)
        assert await session.children("/a") == ["b", "s-0000000000"]
        assert await session.exists("/gone") is None
        assert session.id != old_id
        assert await session.create("/a/s-", sequential=True) == "/a/s-0000000002"
        assert (await stat_of(session, "/a/s-0000000002")).czxid > last.czxid

    @on_stores
    async def test_a_restart_leaves_no_ephemerals(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"one")
        await session.create("/a/b", b"two", ephemeral=True)
        await stores.restart()
        session = await open_session(stores)
        assert await session.children("/a") == []


class StoreContract(
    NodeContract,
    SequentialContract,
    MultiContract,
    SessionContract,
    WatchContract,
    ConcurrencyContract,
):
    """All of it."""
