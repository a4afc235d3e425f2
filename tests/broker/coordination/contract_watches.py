"""The second half of the contract: watches, and many clients at once."""

import asyncio

import pytest

from odradek.broker.coordination.interface import (
    BadVersion,
    Create,
    Delete,
    EventKind,
    NoNode,
    Session,
    Set,
    WatchEvent,
)
from tests.broker.coordination.stores import Seen, Stores, on_stores, open_session, settle

CREATED, DELETED = EventKind.CREATED, EventKind.DELETED
CHANGED, CHILD = EventKind.CHANGED, EventKind.CHILD


class WatchContract:
    """One-shot watches."""

    @on_stores
    async def test_get_watches_data_once(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        await session.create("/a")
        seen = Seen()
        await session.get("/a", seen)
        await other.set("/a", b"1")
        await other.set("/a", b"2")
        await other.delete("/a")
        await settle(session)
        assert seen.events == [WatchEvent(CHANGED, "/a")]

    @on_stores
    async def test_setting_the_same_data_is_a_change(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"same")
        seen = Seen()
        await session.get("/a", seen)
        await session.set("/a", b"same")
        await settle(session)
        assert seen.events == [WatchEvent(CHANGED, "/a")]

    @on_stores
    async def test_deletion_reaches_data_and_child_watches(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        await session.create("/a")
        by_get, by_exists, by_children = Seen(), Seen(), Seen()
        await session.get("/a", by_get)
        await session.exists("/a", by_exists)
        await session.children("/a", by_children)
        await other.delete("/a")
        await settle(session)
        assert (
            by_get.events == by_exists.events == by_children.events == [WatchEvent(DELETED, "/a")]
        )

    @on_stores
    async def test_exists_watches_a_missing_node(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        seen = Seen()
        assert await session.exists("/a", seen) is None
        await other.create("/a")
        await other.set("/a", b"x")
        await settle(session)
        assert seen.events == [WatchEvent(CREATED, "/a")]

    @on_stores
    async def test_a_failed_read_sets_no_watch(self, stores: Stores) -> None:
        session = await open_session(stores)
        seen = Seen()
        with pytest.raises(NoNode):
            await session.get("/a", seen)
        with pytest.raises(NoNode):
            await session.children("/a", seen)
        await session.create("/a")
        await session.create("/a/b")
        await settle(session)
        assert seen.events == []

    @on_stores
    async def test_children_come_and_go(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        await session.create("/a")
        seen = Seen()
        assert await session.children("/a", seen) == []
        await other.create("/a/b")
        await other.create("/a/c")
        await settle(session)
        assert seen.events == [WatchEvent(CHILD, "/a")]
        assert await session.children("/a", seen) == ["b", "c"]
        await other.delete("/a/b")
        await settle(session)
        assert seen.events == [WatchEvent(CHILD, "/a")] * 2

    @on_stores
    async def test_what_a_child_watch_ignores(self, stores: Stores) -> None:
        session = await open_session(stores)
        for path in ("/a", "/a/b"):
            await session.create(path)
        seen = Seen()
        await session.children("/a", seen)
        await session.set("/a", b"x")
        await session.set("/a/b", b"x")
        await session.create("/a/b/c")
        await settle(session)
        assert seen.events == []

    @on_stores
    async def test_what_a_data_watch_ignores(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        seen = Seen()
        await session.get("/a", seen)
        await session.create("/a/b")
        await session.delete("/a/b")
        await settle(session)
        assert seen.events == []

    @on_stores
    async def test_a_callback_is_registered_once(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        seen, another = Seen(), Seen()
        for _ in range(3):
            await session.get("/a", seen)
        await session.get("/a", another)
        await session.set("/a", b"x")
        await settle(session)
        assert seen.events == another.events == [WatchEvent(CHANGED, "/a")]

    @on_stores
    async def test_two_sessions_watch_for_themselves(self, stores: Stores) -> None:
        first, second = await open_session(stores), await open_session(stores)
        await first.create("/a")
        seen_first, seen_second = Seen(), Seen()
        await first.get("/a", seen_first)
        await second.get("/a", seen_second)
        await first.set("/a", b"x")
        await seen_first.wait(1)
        await seen_second.wait(1)

    @on_stores
    async def test_watches_end_with_their_session(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        await other.create("/a")
        seen = Seen()
        await session.get("/a", seen)
        await session.children("/a", seen)
        await session.exists("/new", seen)
        await session.create("/mine", ephemeral=True)
        await session.get("/mine", seen)
        await session.close()
        await other.multi([Set("/a", b"x"), Create("/a/b"), Create("/new")])
        await settle(other)
        assert seen.events == []

    @on_stores
    async def test_a_multi_fires_in_the_order_of_its_operations(self, stores: Stores) -> None:
        session, other = await open_session(stores), await open_session(stores)
        await session.multi([Create("/a"), Create("/b"), Create("/c")])
        seen = Seen()
        for path in ("/a", "/b", "/c", "/d"):
            await session.exists(path, seen)
        await session.children("/a", seen)
        await other.multi([Delete("/c"), Set("/b", b"x"), Create("/a/new"), Create("/d")])
        await seen.wait(4)
        assert seen.events == [
            WatchEvent(DELETED, "/c"),
            WatchEvent(CHANGED, "/b"),
            WatchEvent(CHILD, "/a"),
            WatchEvent(CREATED, "/d"),
        ]

    @on_stores
    async def test_an_event_comes_before_what_it_announces(self, stores: Stores) -> None:
        """Also to a reader who never waits for the event."""
        session, other = await open_session(stores), await open_session(stores)
        await session.create("/a", b"0")
        for round_ in range(1, 30):
            seen = Seen()
            await session.get("/a", seen)
            writing = asyncio.create_task(other.set("/a", b"%d" % round_))
            while (await session.get("/a"))[0] != b"%d" % round_:
                assert not writing.done() or seen.events == []
                await asyncio.sleep(0)
            assert seen.events == [WatchEvent(CHANGED, "/a")]
            await writing

    @on_stores
    async def test_an_event_comes_before_the_answer_to_its_writer(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        seen = Seen()
        await session.get("/a", seen)
        await session.children("/a", seen)
        await session.set("/a", b"x")
        assert len(seen.events) == 1
        await session.create("/a/b")
        assert seen.events == [WatchEvent(CHANGED, "/a"), WatchEvent(CHILD, "/a")]

    @on_stores
    async def test_answers_and_events_follow_the_transactions(self, stores: Stores) -> None:
        """One session sets two nodes in turn and watches both."""
        session = await open_session(stores)
        await session.multi([Create("/a"), Create("/b")])
        heard: list[str] = []

        async def change(path: str, data: bytes) -> None:
            await session.set(path, data)
            heard.append(f"answer {path}")

        await session.get("/b", lambda event: heard.append(f"event {event.path}"))
        await asyncio.gather(change("/a", b"1"), change("/b", b"1"), change("/a", b"2"))
        assert heard == ["answer /a", "event /b", "answer /b", "answer /a"]


class ConcurrencyContract:
    """Many operations at once, of one client and of many."""

    @on_stores
    async def test_operations_of_a_session_keep_their_order(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a", b"start")
        before, stat, after, _, gone, new = await asyncio.gather(
            session.get("/a"),
            session.set("/a", b"changed"),
            session.get("/a"),
            session.delete("/a"),
            session.exists("/a"),
            session.create("/a"),
        )
        assert (before[0], after[0]) == (b"start", b"changed")
        assert after[1] == stat
        assert (gone, new) == (None, "/a")

    @on_stores
    async def test_counting_with_versions(self, stores: Stores) -> None:
        sessions = [await open_session(stores) for _ in range(8)]
        await sessions[0].create("/count", b"0")

        async def count(session: Session) -> None:
            for _ in range(5):
                while True:
                    data, stat = await session.get("/count")
                    try:
                        await session.set("/count", b"%d" % (int(data) + 1), stat.version)
                        break
                    except BadVersion:
                        continue

        await asyncio.gather(*map(count, sessions))
        data, stat = await sessions[0].get("/count")
        assert (data, stat.version) == (b"40", 40)

    @on_stores
    async def test_one_wins(self, stores: Stores) -> None:
        sessions = [await open_session(stores) for _ in range(8)]
        results = await asyncio.gather(
            *[session.create("/leader", ephemeral=True) for session in sessions],
            return_exceptions=True,
        )
        winners = [index for index, result in enumerate(results) if result == "/leader"]
        assert len(winners) == 1
        stat = await sessions[0].exists("/leader")
        assert stat is not None
        assert stat.ephemeral_owner == sessions[winners[0]].id

    @on_stores
    async def test_a_cancelled_caller_harms_nobody(self, stores: Stores) -> None:
        session = await open_session(stores)
        await session.create("/a")
        cancelled = asyncio.create_task(session.set("/a", b"1"))
        kept = asyncio.create_task(session.set("/a", b"2"))
        await asyncio.sleep(0)
        cancelled.cancel()
        await asyncio.wait([cancelled])
        await kept
        assert (await session.get("/a"))[0] == b"2"
