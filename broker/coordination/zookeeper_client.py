"""One kazoo client for one session: it reconnects, but never opens a second session.

kazoo by itself would open one at once.  A caller that still relies on the old session must not
write in a new one, so the next session gets its own client: a request of one session cannot be sent
in another.

Events on kazoo's thread reach the loop through the handler's queue.
"""

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import WriterNotClosedException
from kazoo.protocol.states import KazooState, KeeperState

from .interface import CoordinationError, CoordinationLost, SessionExpired
from .zookeeper_handler import LoopHandler

if TYPE_CHECKING:
    from ssl import SSLContext

HOLD_S: Final = 5.0
"""The longest that kazoo's thread waits for the loop to drop the session's state."""
STOP_S: Final = 5.0
TRIES_IN_A_SESSION: Final = 2
"""The number of servers that may stay silent before the session expires."""


class States(Protocol):
    """Receives state changes, on the loop, in wire order with answers and watch events."""

    def connected(self, connection: int, session_id: int) -> None:
        """Requests can be sent on this connection, the first one or a later one."""
        ...

    def suspended(self, last_zxid: int) -> None:
        """The connection is lost; the last answer on it was as of transaction `last_zxid`."""
        ...

    def lost(self, error: CoordinationError) -> None:
        """The session has ended.  kazoo's thread waits until this returns."""
        ...


class SessionClient:
    """A kazoo client with its handler and its thread."""

    def __init__(
        self,
        hosts: str,
        states: States,
        *,
        timeout_ms: int,
        tls: "SSLContext | None",
        options: dict[str, Any],
    ) -> None:
        self.hosts = hosts
        self.handler = LoopHandler(tls, handshake_s=timeout_ms / 1000 / TRIES_IN_A_SESSION)
        self._states = states
        self._released = self.handler.event_object()
        self._is_stopping = False
        self._is_shut = False
        self._warning = _LastWarning()
        logger = logging.Logger("kazoo")
        logger.addHandler(self._warning)
        self.kazoo = KazooClient(
            hosts=hosts, timeout=timeout_ms / 1000, handler=self.handler, logger=logger, **options
        )
        self.kazoo.add_listener(self._on_state)

    @property
    def last_trouble(self) -> str:
        """The reason for the last failure to connect, or for the last disconnection."""
        return self._warning.text

    def start(self) -> None:
        """Start connecting."""
        self.kazoo.start_async()

    async def stop(self) -> None:
        """End the session and the thread; after STOP_S, return and let that go on by itself."""
        self._is_stopping = True
        await asyncio.wait([self.handler.in_thread(self._shut)], timeout=STOP_S)

    # --- on kazoo's thread

    def _on_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            session_id, _ = self.kazoo.client_id
            connection = self.handler.connected()
            self.handler.put(partial(self._states.connected, connection, session_id))
            return
        self.handler.disconnected()
        if state == KazooState.SUSPENDED:
            self.handler.put(partial(self._states.suspended, self.kazoo.last_zxid))
        else:
            self.handler.put(partial(self._lost, self.kazoo.client_state))
            if not self._is_stopping:
                self._hold()

    def _hold(self) -> None:
        """Let the loop drop the session's state; then stop kazoo before it opens a new session."""
        self._released.wait(HOLD_S)
        self.handler.spawn(self._shut)
        self.handler.stopped.wait(HOLD_S)

    def _shut(self) -> None:
        """Stop kazoo and block until its thread has ended, unless another call already does."""
        with self.handler.gate:
            if self._is_shut:
                return
            self._is_shut = True
        try:
            self.kazoo.stop()
        except WriterNotClosedException:  # its thread is connecting, and stops later
            return
        self.kazoo.close()

    # --- on the loop

    def _lost(self, state: str) -> None:
        try:
            self._states.lost(self._error(state))
        finally:
            self._released.set()

    def _error(self, state: str) -> CoordinationError:
        if state == KeeperState.EXPIRED_SESSION:
            return SessionExpired("the session has expired")
        if state == KeeperState.AUTH_FAILED:
            return CoordinationLost(f"ZooKeeper at {self.hosts} refuses these credentials")
        return CoordinationLost(f"the connection to ZooKeeper at {self.hosts} has ended")


class _LastWarning(logging.Handler):
    """Remembers errors that kazoo reports only in its log."""

    text = "no answer"

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the text after the last colon of a warning."""
        _, colon, reason = record.getMessage().rpartition(": ")
        if record.levelno >= logging.WARNING and colon:
            self.text = reason
