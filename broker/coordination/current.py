"""The broker's current session with the store, which is replaced when it expires.

All users of the store hold this object, which is a `Session` itself. Between two sessions its
operations raise SessionExpired. Watches end with a session: code that sets watches adds a callback
to `on_renewed`, which reads and watches again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..pause import Pause
from .interface import (
    ANY_VERSION,
    CoordinationError,
    CoordinationLost,
    Op,
    Result,
    Session,
    SessionExpired,
    Stat,
    Store,
    StoreError,
    Watch,
    WatchEvent,
)

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.2
OnFailure = Callable[[CoordinationError], None]


def _ignore(error: CoordinationError) -> None:
    """The default `on_failure`: do nothing; operations fail from then on."""


@dataclass(frozen=True, slots=True)
class _Delivery:
    """Calls a watch; during a pause, after it.  Of equal watches the store keeps only one."""

    watch: Watch
    pause: Pause

    def __call__(self, event: WatchEvent) -> None:
        if self.pause.is_on:
            self.pause.hold(partial(self.watch, event))
        else:
            self.watch(event)


class CurrentSession:
    """A `Session` that is reopened when it expires.  `open` it first.

    `on_failure` is called once if that is not possible: the store is gone for good, or a callback
    in `on_renewed` raised an error that a further session would not fix.
    """

    on_lost: list[Callable[[], None]]
    """Called on the loop before a new session can begin, to drop state that depends on the old one
    (being the controller, being registered)."""
    on_renewed: list[Callable[[], Awaitable[None]]]
    """Awaited in order once there is a new session: register, then read and watch everything.
    If one raises SessionExpired, all are called again for the next session."""

    def __init__(
        self,
        store: Store,
        timeout_ms: int,
        *,
        on_failure: OnFailure = _ignore,
        pause: Pause | None = None,
    ) -> None:
        """`pause`: while it is on, operations and events of watches wait, and a session that
        expires is not replaced."""
        self.on_lost = []
        self.on_renewed = []
        self._store = store
        self._timeout_ms = timeout_ms
        self._on_failure = on_failure
        self._pause = pause or Pause()
        self._session: Session | None = None
        self._id = 0
        self._renewing: asyncio.Task[None] | None = None
        self._closed = False
        self._failed = False

    async def open(self) -> None:
        """Open the first session.  Raises: StoreError, CoordinationLost."""
        await self._open_one()

    @property
    def id(self) -> int:
        """The id of the current session; between two sessions, of the last one."""
        return self._id

    @property
    def is_live(self) -> bool:
        """Whether there is a session now."""
        return self._session is not None

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node; return its path."""
        return await (await self._live()).create(
            path, data, ephemeral=ephemeral, sequential=sequential
        )

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        """The data of a node."""
        return await (await self._live()).get(path, self._held(watch))

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data of a node."""
        return await (await self._live()).set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node."""
        await (await self._live()).delete(path, version)

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The Stat of a node, or None."""
        return await (await self._live()).exists(path, self._held(watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """The names of a node's children, sorted."""
        return await (await self._live()).children(path, self._held(watch))

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        """Apply all of `ops` or none."""
        return await (await self._live()).multi(ops)

    async def close(self) -> None:
        """End the session and open no other.  Idempotent."""
        self._closed = True
        session, self._session = self._session, None
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.wait([self._renewing])
            session = session or self._session  # it may have been opened meanwhile
            self._session = None
        if session is not None:
            await session.close()

    def give_up(self, error: CoordinationError) -> None:
        """Fail as if the session were lost for good; `close` still ends the session."""
        for drop in self.on_lost:
            drop()
        self._fail(error)

    def _held(self, watch: Watch | None) -> Watch | None:
        return None if watch is None else _Delivery(watch, self._pause)

    async def _live(self) -> Session:
        if self._pause.is_on:
            await self._pause.over()
        if self._session is None:
            raise SessionExpired(f"session {self._id:#x} has ended, and there is no new one yet")
        return self._session

    async def _open_one(self) -> None:
        """Open a session.  Raises: StoreError, CoordinationLost, SessionExpired."""
        ends: list[CoordinationError] = []
        session: Session | None = None

        def on_end(error: CoordinationError) -> None:
            ends.append(error)
            if self._pause.is_on:  # it learns of it later, like one whose packets are lost
                self._pause.hold(lost)
            else:
                lost()

        def lost() -> None:
            if session is not None and session is self._session:
                self._lost(ends[0])

        session = await self._store.open_session(self._timeout_ms, on_end)
        if ends:  # it ended before it was used
            raise ends[0]
        self._session, self._id = session, session.id

    def _lost(self, error: CoordinationError) -> None:
        self._session = None
        if self._closed:
            return
        logger.warning("session lost id=%#x reason=%s", self._id, error)
        for drop in self.on_lost:
            drop()
        if not isinstance(error, SessionExpired):
            self._fail(error)
        elif self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(), name="session-renewal")
            self._renewing.add_done_callback(self._renewed)

    async def _renew(self) -> None:
        """Open sessions until all of `on_renewed` has succeeded for one that is still live.

        Raises: CoordinationError if that is impossible.
        """
        while True:
            await self._pause.over()
            try:
                await self._open_one()
            except (StoreError, SessionExpired) as error:
                logger.warning("no new session yet reason=%s", error)
                await asyncio.sleep(RETRY_S)
                continue
            logger.info("session renewed id=%#x", self._id)
            session = self._session
            try:
                for renew in self.on_renewed:
                    await renew()
            except SessionExpired:
                if session is self._session:
                    raise
            if session is self._session:
                return

    def _renewed(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, CoordinationError):
            logger.error("session cannot be renewed reason=%s", error)
            self._fail(error)
        elif error is not None:
            task.get_loop().call_exception_handler(
                {"message": "renewing the session failed", "exception": error, "task": task}
            )
            self._fail(CoordinationLost(f"renewing the session failed: {error!r}"))

    def _fail(self, error: CoordinationError) -> None:
        if not self._failed:
            self._failed = True
            self._on_failure(error)
