"""One session with ZooKeeper: opening, operations, watches and closing."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kazoo.protocol.states import EventType

from .interface import (
    BadArguments,
    CoordinationError,
    CoordinationLost,
    Create,
    Delete,
    EventKind,
    MultiFailed,
    NodeExists,
    Op,
    Result,
    SessionExpired,
    Stat,
    StoreError,
    Watch,
    WatchEvent,
)
from .paths import check_path, check_size
from .single_writes import SingleWrites
from .watches import Watches
from .zookeeper_client import SessionClient
from .zookeeper_requests import Below, Read, Write
from .zookeeper_sending import RequestSender

if TYPE_CHECKING:
    from ssl import SSLContext

logger = logging.getLogger(__name__)

OnEnd = Callable[[CoordinationError], None]
CLOSE_S: Final = 5.0
RECONNECT_S: Final = 1.0
"""How long `close` waits for a connection; without one, the session's nodes remain until it
expires."""
COMPLAIN_S: Final = 1.0
EVENTS: Final = {
    EventType.CREATED: EventKind.CREATED,
    EventType.DELETED: EventKind.DELETED,
    EventType.CHANGED: EventKind.CHANGED,
    EventType.CHILD: EventKind.CHILD,
}
THIS: Final = 0


class ZooKeeperSession(SingleWrites):
    """A `Session` of a `ZooKeeperStore`; `open` it first."""

    def __init__(
        self,
        hosts: str,
        below: Below,
        *,
        timeout_ms: int,
        in_flight_max: int,
        tls: "SSLContext | None",
        client_options: dict[str, Any],
        on_end: OnEnd | None,
    ) -> None:
        self._below = below
        self._on_end = on_end
        self._id = 0
        self._watches = Watches()
        self._ended: CoordinationError | None = None
        self._closing = False
        self._is_open = False
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._client = SessionClient(
            hosts, self, timeout_ms=timeout_ms, tls=tls, options=client_options
        )
        self._sender = RequestSender(
            self._client, below, in_flight_max=in_flight_max, on_read=self._set_watch
        )

    async def open(self, timeout_s: float, *, make_chroot: bool) -> None:
        """Connect; create the chroot if it is missing and `make_chroot` is set.

        Raises: StoreError, CoordinationLost.
        """
        self._client.start()
        try:
            await self._connect(timeout_s)
            try:
                await asyncio.wait_for(self._begin(make_chroot), timeout_s)
            except TimeoutError:
                raise self._out_of_reach(timeout_s) from None
        except BaseException:
            self._closing = True
            self._opened.cancel()
            await self._client.stop()
            raise
        self._is_open = True

    async def _begin(self, make_chroot: bool) -> None:
        """Send a first request, which shows whether the credentials are accepted."""
        if await self._read("exists", "/", None) is None and make_chroot:
            await self._make_chroot()

    async def _connect(self, timeout_s: float) -> None:
        complain_s = min(COMPLAIN_S, timeout_s)
        await asyncio.wait([self._opened], timeout=complain_s)
        if not self._opened.done() and timeout_s > complain_s:
            logger.warning(
                "zookeeper cannot be reached at %s (%s): trying for %.0f s more",
                self._client.hosts,
                self._client.last_trouble,
                timeout_s - complain_s,
            )
            await asyncio.wait([self._opened], timeout=timeout_s - complain_s)
        if not self._opened.done():
            raise self._out_of_reach(timeout_s)
        self._opened.result()

    def _out_of_reach(self, timeout_s: float) -> StoreError:
        return StoreError(
            f"ZooKeeper cannot be reached at {self._client.hosts} within {timeout_s:g} s: "
            f"{self._client.last_trouble}"
        )

    @property
    def id(self) -> int:
        """The owner of this session's ephemeral nodes."""
        return self._id

    @property
    def is_ended(self) -> bool:
        """Whether the session was closed, has expired or was refused."""
        return self._ended is not None

    @property
    def client_id(self) -> tuple[int, bytes] | None:
        """ZooKeeper's id and password of the session, while connected."""
        found: tuple[int, bytes] | None = self._client.kazoo.client_id
        return found

    def cut_off(self) -> None:
        """End the connection, and make no other one until `let_through`, as a test wants it."""
        self._client.handler.cut_off()

    def let_through(self) -> None:
        """The end of `cut_off`."""
        self._client.handler.let_through()

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a node."""
        answer: tuple[bytes, Stat] = await self._read("get", path, watch)
        return answer

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of a node, or None."""
        answer: Stat | None = await self._read("exists", path, watch)
        return answer

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted."""
        answer: list[str] = await self._read("children", path, watch)
        return answer

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        """Apply all of `ops` or none."""
        return await self._write(ops, is_multi=True)

    async def close(self) -> None:
        """Finish pending operations, delete the ephemeral nodes, end the session."""
        if self._closing:
            return
        self._closing = True
        if self._ended is not None:
            return
        with suppress(TimeoutError):
            await asyncio.wait_for(self._sender.connection(), RECONNECT_S)
            await asyncio.wait_for(self._sender.idle(), CLOSE_S)
        self._finish(SessionExpired(f"session {self._id:#x} is closed"))
        await self._client.stop()

    # --- operations

    async def _read(self, kind: str, path: str, watch: Watch | None) -> Any:
        self._check_live()
        check_path(path)
        answer = self._loop.create_future()
        self._sender.submit(
            Read(answer, kind=kind, path=path, watch=watch, on_event=self._on_event)
        )
        return await answer

    async def _write_one(self, op: Op) -> list[Result]:
        return await self._write([op], is_multi=False)

    async def _write(self, ops: Sequence[Op], *, is_multi: bool) -> list[Result]:
        self._check_live()
        check_size(ops)
        for index, op in enumerate(ops):
            try:
                _check_op(op)
            except CoordinationError as error:
                raise MultiFailed(index, error) from error
        if not ops:
            return []
        request = Write(self._loop.create_future(), ops=tuple(ops), is_multi=is_multi)
        request.prepare(self._below)
        self._sender.submit(request)
        results: list[Result] = await request.answer
        return results

    def _check_live(self) -> None:
        if isinstance(self._ended, CoordinationLost):
            raise CoordinationLost(str(self._ended))
        if self._ended is not None or self._closing:
            raise SessionExpired(f"session {self._id:#x} has ended")

    async def _make_chroot(self) -> None:
        names = self._below.chroot[1:].split("/")
        for count in range(1, len(names) + 1):
            path = "/" + "/".join(names[:count])
            request = Write(self._loop.create_future(), ops=(Create(path),), is_multi=False)
            request.prepare(Below("", self._below.acl_of))
            self._sender.submit(request)
            try:
                await request.answer
            except NodeExists:
                continue

    # --- watches

    def _set_watch(self, read: Read) -> None:
        if read.watch is None:
            return
        if read.kind == "children":
            self._watches.watch_children(THIS, read.path, read.watch)
        else:
            self._watches.watch_data(THIS, read.path, read.watch)

    def _on_event(self, event: Any) -> None:
        kind = EVENTS.get(event.type)
        if kind is None:
            return  # kazoo drops its watches; ours fire after reconnecting
        for _, watch, seen in self._watches.take([WatchEvent(kind, self._below.short(event.path))]):
            self._loop.call_soon(self._call_watch, watch, seen)

    def _call_watch(self, watch: Watch, event: WatchEvent) -> None:
        if self._ended is None:
            watch(event)

    # --- `States` of the client

    def connected(self, connection: int, session_id: int) -> None:
        """Send requests on this connection, and fire all watches."""
        if self._ended is not None:
            return
        if not self._opened.done():
            self._id = session_id
            self._opened.set_result(None)
        else:
            logger.info("zookeeper connected again session=%#x", session_id)
        self._sender.connected(connection, session_id)
        for _, watch, event in self._watches.take_all():
            self._loop.call_soon(self._call_watch, watch, event)

    def suspended(self, last_zxid: int) -> None:
        """Stop sending until the next connection."""
        if self._ended is None:
            reason = self._client.last_trouble
            logger.warning("zookeeper connection lost session=%#x reason=%s", self._id, reason)
            self._sender.suspended(last_zxid)

    def lost(self, error: CoordinationError) -> None:
        """End the session: fail pending requests and call `on_end`."""
        if not self._opened.done():
            self._opened.set_exception(error)
        is_news = self._ended is None
        self._finish(error)
        if is_news and self._is_open and not self._closing and self._on_end is not None:
            self._on_end(error)

    def _finish(self, error: CoordinationError) -> None:
        if self._ended is None:
            self._ended = error
            self._watches.end_session(THIS)
            self._sender.end(error)


def _check_op(op: Op) -> None:
    """Refuse operations that ZooKeeper would answer by disconnecting or without a reason."""
    is_sequential = isinstance(op, Create) and op.sequential
    check_path(op.path, sequential=is_sequential)
    if op.path == "/" and not is_sequential:
        if isinstance(op, Delete):
            raise BadArguments("the root cannot be deleted")
        if isinstance(op, Create):
            raise NodeExists("/")
