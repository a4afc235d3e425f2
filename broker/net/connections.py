"""All connections of a broker: their maximum number, their maximum idle time, what they share."""

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from odradek.storage.log.span import Span

from ..config import Config
from ..runtime import Clock, Runtime
from .admission import Admission
from .connection import Connection
from .dispatcher import Dispatcher
from .plain_socket import PlainConnection
from .receive import ReceiveBudget
from .shares import Shares
from .turns import Turns

if TYPE_CHECKING:
    from ..network.network import Link
    from ..node import Node
    from ..sasl.login import Offer
    from .authenticator import Authenticator
    from .detour import Detour

logger = logging.getLogger(__name__)

SWEEP_MS: Final = 1000
STALLED_MS: Final = 5000
"""For how long a frame may make no progress while others wait for its memory."""
CLOSE_LINES_PER_SWEEP_MAX: Final = 20
_NO_OFFERS: Final[Mapping[str, "Offer"]] = {}
_NO_PROBE: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


class Connections:
    """The registry of open connections, and the limits that apply to all of them."""

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        node: "Node",
        offers: "Mapping[str, Offer]" = _NO_OFFERS,
    ) -> None:
        """`offers`: how clients log in, by the names of the listeners on which they must."""
        self.node = node
        self.clock: Clock = runtime.clock
        self.frame_bytes_max: int = config.socket_request_max_bytes
        self.budget = ReceiveBudget(config.queued_max_request_bytes, on_freed=self._on_memory_freed)
        self._idle_ms_max: int = config.connections_max_idle_ms
        self._config = config
        self._send_buffer_bytes = config.socket_send_buffer_bytes
        self._receive_buffer_bytes = config.socket_receive_buffer_bytes
        self._offload = runtime.offload
        self.handshakes = Turns()
        self.shares = Shares(runtime.loop_ns)
        self._open: dict[Connection, None] = {}
        self._waiting_for_memory: dict[Connection, None] = {}
        self._wakes_memory_waiters = False
        self._close_lines = 0
        self._can_probe = hasattr(os, "RWF_NOWAIT")
        self.admission = Admission(config, node, self._open, self._log_limited)
        self.login_timeout_ms: int = config.odradek_authentication_timeout_ms
        self.failed_login_delay_ms: int = config.connection_failed_authentication_delay_ms
        self._offers = offers
        self.is_paused = False
        """Whether nothing is read."""
        self._turns_clients_away = False
        self._link: Link | None = None
        self._detours: dict[Connection, Detour] = {}

    def __len__(self) -> int:
        return len(self._open)

    # Opening and closing.

    def tune(self, sock: socket.socket) -> None:
        """Set the socket options of a new connection."""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if self._send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer_bytes)
        if self._receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer_bytes)

    def add(self, connection: Connection) -> None:
        """Register an accepted connection."""
        self._open[connection] = None
        self.admission.came(connection)
        if self.is_paused:
            connection.pause()
        if len(self._open) > self._config.max_connections:
            self._close_idlest()
        if self._turns_clients_away and not self.admission.is_of_brokers(connection.listener_name):
            # Not now, as it is still being made; but before anything is read from it.
            asyncio.get_running_loop().call_soon(connection.close, "")
        if self._link is not None and not self._link.is_good:
            self._divert(connection)

    def follow(self, link: "Link") -> None:
        """Let the bytes of clients go over this link; all connections must be on plain sockets."""
        self._link = link
        link.watch(self._divert_all)
        self._divert_all()

    def _divert_all(self) -> None:
        if self._link is not None and not self._link.is_good:
            for connection in list(self._open):
                self._divert(connection)

    def _divert(self, connection: Connection) -> None:
        """Let a connection of a client take a detour, from now on until it ends."""
        if connection.closed or connection in self._detours:
            return
        if self.admission.is_of_brokers(connection.listener_name):
            return
        from .detour import Detour  # only tests need it

        assert isinstance(connection, PlainConnection)
        assert self._link is not None
        client, other = connection.detach()

        def on_end() -> None:
            self._detours.pop(connection, None)

        self._detours[connection] = Detour(client, other, self._link, on_end)

    def dispatcher_for(self, connection: Connection) -> "Dispatcher | Authenticator":
        """What handles the requests of a new connection: where clients must log in, only that."""
        if not self._config.has_sasl(connection.listener_name):
            return Dispatcher(self.node, connection)
        from .authenticator import Authenticator

        offer = self._offers[connection.listener_name]
        return Authenticator(self, connection, offer, self.node)

    def forget(self, connection: Connection) -> None:
        """Unregister a closed connection."""
        self._open.pop(connection, None)
        self._waiting_for_memory.pop(connection, None)
        self.admission.went(connection)

    def _close_idlest(self) -> None:
        """Close the longest-idle client connection, as a broker's exceeds the limit."""
        clients = self.admission.clients()
        idlest = min(clients, key=lambda client: client.active_ms, default=None)
        if idlest is not None:
            idlest.close(
                f"a broker connected, and max.connections={self._config.max_connections} is reached"
            )

    def pause(self) -> None:
        """Read nothing, also from new connections, until `go_on`."""
        self.is_paused = True
        for connection in self._open:
            connection.pause()

    def go_on(self) -> None:
        """Read again, and handle what has come meanwhile."""
        self.is_paused = False
        for connection in list(self._open):
            connection.go_on()

    def turn_clients_away(self) -> None:
        """Close all connections of clients, now and whenever one comes, until `let_clients_in`."""
        self._turns_clients_away = True
        for connection in list(self.admission.clients()):
            connection.close("")

    def let_clients_in(self) -> None:
        """Accept clients again."""
        self._turns_clients_away = False

    def close_all(self) -> None:
        """Close all connections, as the broker stops."""
        self.admission.held.close_all()
        for connection in list(self._open):
            connection.close("")
        for detour in list(self._detours.values()):
            detour.close()
        if self._link is not None:
            self._link.unwatch(self._divert_all)

    def reset_all(self) -> None:
        """Reset all connections, so that clients see what a dead broker would show them."""
        self.admission.held.close_all()
        for connection in list(self._open):
            connection.reset()
        for detour in list(self._detours.values()):
            detour.reset()

    def log_closed(self, connection: Connection, reason: str) -> None:
        """Log one line for a connection closed for a reason; the number of lines is limited."""
        client = connection.software or "-"
        self._log_limited(
            "connection closed peer=%s client=%s reason=%s", connection.host, client, reason
        )

    def log_handshake(self, listener_name: str, host: str, reason: str) -> None:
        """Log one line for a client that could not connect; the number of lines is limited."""
        self._log_limited(
            "handshake failed peer=%s listener=%s reason=%s", host, listener_name, reason
        )

    def log_refused_login(
        self, connection: Connection, *, mechanism: str, user: str, reason: str
    ) -> None:
        """Log one line for a client that may not log in; the number of lines is limited."""
        self._log_limited(
            "authentication refused peer=%s listener=%s mechanism=%.50r user=%.200r reason=%s",
            connection.host,
            connection.listener_name,
            mechanism,
            user,
            reason,
        )

    def _log_limited(self, line: str, *values: object) -> None:
        self._close_lines += 1
        if self._close_lines <= CLOSE_LINES_PER_SWEEP_MAX:
            logger.warning(line, *values)

    # Memory of receive buffers.

    def wait_for_memory(self, connection: Connection) -> None:
        """Let this connection, whose large frame cannot grow, read on once others free memory."""
        self._waiting_for_memory.setdefault(connection)

    def reclaim_memory(self) -> None:
        """Close the connection that has made no progress for the longest time.

        If all wait for memory, the one that came last.
        """
        victim = min(self._memory_holders(), key=lambda each: each.progress_ms, default=None)
        if victim is None:
            victim = next(reversed(self._waiting_for_memory))
        victim.close("queued.max.request.bytes is used up, and this client progressed least")

    def _memory_holders(self) -> list[Connection]:
        """The connections with a buffer, without those that wait for more memory."""
        waiting = self._waiting_for_memory
        return [each for each in self._open if each.frames.holds_memory and each not in waiting]

    def _on_memory_freed(self) -> None:
        if self._waiting_for_memory and not self._wakes_memory_waiters:
            # Not now: another connection is still handling its own frames.
            self._wakes_memory_waiters = True
            asyncio.get_running_loop().call_soon(self._wake_memory_waiters)

    def _wake_memory_waiters(self) -> None:
        self._wakes_memory_waiters = False
        waiting, self._waiting_for_memory = self._waiting_for_memory, {}
        for connection in waiting:  # they have no whole frame, so they need not wait for a turn
            connection.read_on()

    # Periodic work.

    async def sweep_forever(self) -> None:
        """Close idle connections, and free memory that nothing else frees."""
        while True:
            await asyncio.sleep(SWEEP_MS / 1000)
            self.sweep()

    def sweep(self) -> None:
        """Run one round of `sweep_forever`."""
        suppressed = self._close_lines - CLOSE_LINES_PER_SWEEP_MAX
        if suppressed > 0:
            logger.warning("connections closed or refused without a log line count=%d", suppressed)
        self._close_lines = 0
        now_ms = self.clock.now_ms()
        if self._idle_ms_max >= 0:
            self._close_idle(now_ms - self._idle_ms_max)
        if self._waiting_for_memory:
            self._close_stalled(now_ms - STALLED_MS)

    def _close_idle(self, since_ms: int) -> None:
        for connection in [c for c in self._open if c.progress_ms < since_ms]:
            # A client that waits for an answer is not idle, if we would notice that it hangs up.
            if not (connection.dispatcher.parked and connection.is_reading):
                connection.close("")

    def _close_stalled(self, since_ms: int) -> None:
        """Close whoever holds memory that others wait for, and does not go on."""
        for connection in self._memory_holders():
            waits_for_us = connection.waits_for_turn or (
                connection.dispatcher.parked and not connection.is_sending
            )
            if connection.progress_ms < since_ms and not waits_for_us:
                connection.close(
                    "queued.max.request.bytes is used up, and this client has made no progress "
                    f"for {STALLED_MS} ms"
                )

    # Cold data.

    def is_cold(self, span: Span) -> bool:
        """Whether sending would wait for the disk: the span's first or last byte is not cached."""
        if not self._can_probe or span.size_bytes == 0:
            return False
        try:
            for position in (span.position, span.position + span.size_bytes - 1):
                os.preadv(span.file.fileno(), [bytearray(1)], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return True
        except OSError as error:
            if error.errno not in _NO_PROBE:
                raise
            self._can_probe = False  # this file system does not support the flag
        return False

    def read_if_warm(self, span: Span) -> bytes | bytearray | None:
        """Return the bytes of a span, or None if reading them would wait for the disk.

        Raises: LogDirFailed.
        """
        if not self._can_probe:
            return span.read()
        data = bytearray(span.size_bytes)
        try:
            count = os.preadv(span.file.descriptor(), [data], span.position, os.RWF_NOWAIT)
        except OSError as error:
            self._can_probe = error.errno not in _NO_PROBE
            return None
        return data if count == len(data) else None

    async def warm_up(self, span: Span) -> None:
        """Read a span into the page cache, in a thread.  Raises: OSError."""
        file = span.file
        file.ref()
        reading = asyncio.ensure_future(
            self._offload(_read_through, file.fileno(), span.position, span.size_bytes)
        )

        def on_read(done: asyncio.Future[None]) -> None:
            file.unref()  # only now: the thread continues even if nobody waits for it any more
            if not done.cancelled():
                done.exception()

        reading.add_done_callback(on_read)
        await asyncio.shield(reading)


def _read_through(descriptor: int, position: int, size_bytes: int) -> None:
    end = position + size_bytes
    while position < end:
        position += len(os.pread(descriptor, min(1 << 20, end - position), position)) or end
