"""The coordination store inside the broker's process: a tree in memory, a journal on disk.

An operation changes the tree at once, when it is called, so the tree is ahead of the journal.  The
result or error, and the watch events that it caused, then wait in the `CommitQueue` until they are
durable.  The result of a read waits there too.

If a commit fails, the tree in memory stays ahead of the disk for good.  The store is unusable from
then on: every waiting and every later caller gets CoordinationLost.

A session lives as long as the process unless it is closed, expired or abandoned.  It has no timeout
that depends on a clock, because client and store in one process cannot lose contact.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from odradek.broker.runtime import Runtime

from .commit_queue import CommitFailed, CommitQueue, News
from .interface import (
    BadArguments,
    CoordinationError,
    CoordinationLost,
    MultiFailed,
    Op,
    Result,
    SessionExpired,
    Stat,
    StoreError,
    Watch,
    WatchEvent,
)
from .journal import Journal, SqliteJournal
from .paths import check_size
from .single_writes import SingleWrites
from .tree import Tree
from .watches import Watches

logger = logging.getLogger(__name__)

T = TypeVar("T")
OnEnd = Callable[[CoordinationError], None]


class EmbeddedStore:
    """A `Store` for the brokers of one process.  `start` it first."""

    def __init__(
        self, path: str | os.PathLike[str], *, runtime: Runtime, journal: Journal | None = None
    ) -> None:
        self._name = os.fspath(path)
        self._clock = runtime.clock
        self._offload = runtime.store_offload or runtime.offload
        self._journal = journal or SqliteJournal(path, syncs=runtime.syncs)
        self._tree = Tree()
        self._watches = Watches()
        self._sessions: dict[int, EmbeddedSession] = {}
        self._abandoned: dict[int, asyncio.Task[None]] = {}
        self._commits = CommitQueue(self._commit, on_failure=self._die)
        self._cause: BaseException | None = None
        self._open = False
        self._data: tuple[int, dict[str, bytes]] = -1, {}

    @property
    def zxid(self) -> int:
        """The number of the last transaction, committed or not."""
        return self._tree.zxid

    def data(self) -> dict[str, bytes]:
        """The data of all nodes that outlive their sessions, committed or not, by path.

        It is the same object as long as nothing is written.
        """
        zxid, data = self._data
        if zxid != self._tree.zxid:
            data = {path: node.data for path, node in self._tree.lasting()}
            self._data = self._tree.zxid, data
        return data

    def copy_to(self, journal: Journal) -> None:
        """Write all nodes that outlive their sessions into a new journal.  Blocks."""
        journal.open()
        try:
            journal.commit(self._tree.zxid, list(self._tree.lasting()))
        finally:
            journal.close()

    async def settled(self) -> None:
        """Return once everything so far is durable, and the watches have been called."""
        await self._commits.join()

    async def start(self) -> None:
        """Read the journal.  Raises: StoreError."""
        self._tree = await self._offload(self._load)
        self._open = True

    async def open_session(self, timeout_ms: int, on_end: OnEnd | None = None) -> "EmbeddedSession":
        """Open a session; `timeout_ms` is not used.  Raises: CoordinationLost."""
        self._check_open()
        # The id need not be made durable by itself: everything that shows it is committed later.
        session = EmbeddedSession(self, self._tree.take_zxid(), on_end)
        self._sessions[session.id] = session
        return session

    async def expire_session(self, session_id: int) -> None:
        """End a session as if it had timed out."""
        session = self._sessions.get(session_id)
        if session is not None:
            await self.end_session(session, SessionExpired(f"session {session_id:#x} expired"))

    def abandon_session(self, session_id: int, *, after_ms: int) -> None:
        """Refuse further operations of a dead client; delete its nodes after `after_ms`."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._watches.end_session(session_id)
            ending = self._end_abandoned(session_id, after_ms)
            self._abandoned[session_id] = asyncio.create_task(ending, name="abandoned session")

    async def close(self) -> None:
        """End all sessions, finish pending commits, close the journal."""
        self._open = False
        self._sessions.clear()
        for ending in list(self._abandoned.values()):
            ending.cancel()
        await asyncio.gather(*self._abandoned.values(), return_exceptions=True)
        await self._commits.join()
        await self._offload(self._journal.close)

    async def _end_abandoned(self, session_id: int, after_ms: int) -> None:
        try:
            await asyncio.sleep(after_ms / 1000)
            events = self._tree.end_session(session_id, wall_ms=self._clock.wall_ms())
            await self._durable(self._watch_calls(events), changed=bool(events))
        except CoordinationLost:
            pass  # the store has failed, and the other sessions were told
        finally:
            self._abandoned.pop(session_id, None)

    # --- for EmbeddedSession

    async def read(self, session: "EmbeddedSession", look: Callable[[Tree, Watches], T]) -> T:
        """Return what `look` finds, once it is durable."""
        self._check_session(session)
        try:
            answer = look(self._tree, self._watches)
        except CoordinationError:
            await self._durable(changed=False)
            raise
        await self._durable(changed=False)
        return answer

    async def write(self, session: "EmbeddedSession", ops: Sequence[Op]) -> list[Result]:
        """Apply `ops` as one transaction; return once it is durable.  Raises: MultiFailed."""
        self._check_session(session)
        check_size(ops)
        try:
            changes = self._tree.apply(ops, session_id=session.id, wall_ms=self._clock.wall_ms())
        except MultiFailed:
            await self._durable(changed=False)
            raise
        await self._durable(self._watch_calls(changes.events), changed=bool(changes.events))
        return changes.results

    async def end_session(
        self, session: "EmbeddedSession", error: CoordinationError | None = None
    ) -> None:
        """Delete what the session owns; call its `on_end` if `error` is given."""
        if self._sessions.pop(session.id, None) is None:
            return
        self._watches.end_session(session.id)
        events = self._tree.end_session(session.id, wall_ms=self._clock.wall_ms())
        news = self._watch_calls(events)
        if error is not None and session.on_end is not None:
            news.append(partial(session.on_end, error))
        await self._durable(news, changed=bool(events))

    def _load(self) -> Tree:
        saved = self._journal.open()
        try:
            return Tree(saved.nodes, saved.zxid)
        except (ValueError, BadArguments) as error:
            self._journal.close()
            raise StoreError(f"the store {self._name} is damaged: {error}") from error

    def _check_open(self) -> None:
        if self._cause is not None:
            raise self._lost()
        if not self._open:
            raise CoordinationLost(f"the store {self._name} is closed")

    def _check_session(self, session: "EmbeddedSession") -> None:
        self._check_open()
        if session.id not in self._sessions:
            raise SessionExpired(f"session {session.id:#x} has ended")

    async def _durable(self, news: Sequence[News] = (), *, changed: bool) -> None:
        """Return when everything so far is durable.  Raises: CoordinationLost."""
        try:
            await self._commits.wait(news, changed=changed)
        except CommitFailed:
            raise self._lost() from self._cause

    def _watch_calls(self, events: Sequence[WatchEvent]) -> list[News]:
        return [
            partial(self._call_watch, session_id, watch, event)
            for session_id, watch, event in self._watches.take(events)
        ]

    def _call_watch(self, session_id: int, watch: Watch, event: WatchEvent) -> None:
        if session_id in self._sessions:  # it may have ended since
            watch(event)

    async def _commit(self) -> None:
        changes = self._tree.take_unsaved()
        await self._offload(self._journal.commit, self._tree.zxid, changes)

    def _die(self, cause: Exception) -> None:
        """End all sessions: the journal failed, so the tree is ahead of it for good."""
        logger.critical("store lost path=%s", self._name, exc_info=cause)
        self._cause = cause
        for session in self._sessions.values():
            if session.on_end is not None:
                asyncio.get_running_loop().call_soon(session.on_end, self._lost())
        self._sessions.clear()

    def _lost(self) -> CoordinationLost:
        """A new exception for each caller, because a raised one collects the raiser's traceback."""
        lost = CoordinationLost(f"the store {self._name} failed: {self._cause}")
        lost.__cause__ = self._cause
        return lost


class EmbeddedSession(SingleWrites):
    """A `Session` of an `EmbeddedStore`."""

    def __init__(self, store: EmbeddedStore, session_id: int, on_end: OnEnd | None) -> None:
        self._store = store
        self._id = session_id
        self.on_end = on_end

    @property
    def id(self) -> int:
        """The owner of this session's ephemeral nodes."""
        return self._id

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        """Apply all of `ops` or none."""
        return await self._store.write(self, ops)

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a node."""

        def look(tree: Tree, watches: Watches) -> tuple[bytes, Stat]:
            answer = tree.get(path)
            if watch is not None:
                watches.watch_data(self._id, path, watch)
            return answer

        return await self._store.read(self, look)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of a node, or None."""

        def look(tree: Tree, watches: Watches) -> Stat | None:
            answer = tree.exists(path)
            if watch is not None:
                watches.watch_data(self._id, path, watch)
            return answer

        return await self._store.read(self, look)

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted."""

        def look(tree: Tree, watches: Watches) -> list[str]:
            answer = tree.children(path)
            if watch is not None:
                watches.watch_children(self._id, path, watch)
            return answer

        return await self._store.read(self, look)

    async def close(self) -> None:
        """Delete the ephemeral nodes and end the session."""
        await self._store.end_session(self)

    async def _write_one(self, op: Op) -> list[Result]:
        return await self._store.write(self, [op])
