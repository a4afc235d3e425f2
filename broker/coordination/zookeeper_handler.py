"""A kazoo handler for asyncio: one queue from kazoo's connection thread to the loop, in wire order.

kazoo abstracts event loops as *handlers*.  Its own handler for threads runs watch callbacks and
completions on two threads, so that an event and the answer that shows the change may be reordered.
Here the connection thread puts everything (answers, watch events, session states) into one queue.
The loop is woken once to process all that has gathered in it.

Imported only where kazoo is used.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

if TYPE_CHECKING:
    from ssl import SSLContext

Call = Callable[[], None]
NO_CONNECTION: Final = 0


def held_by_tls(reading: Any) -> list[Any]:
    """Those of which TLS has data buffered: their sockets need not become readable."""
    return [end for end in reading if getattr(end, "pending", int)()]


class LoopHandler:
    """kazoo's `IHandler` for one client and the running loop; uses TLS if `tls` is given.

    A server has `handshake_s` to answer the session handshake. A server that is just starting may
    accept a connection and never answer; kazoo itself would wait until the session has expired.
    """

    name = "asyncio_handler"
    timeout_exception = KazooTimeoutError

    def __init__(self, tls: "SSLContext | None" = None, *, handshake_s: float) -> None:
        self._tls = tls
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        threads = SequentialThreadingHandler()  # never started: used to create locks and threads
        self.sleep_func = threads.sleep_func
        self.socket = threads.socket
        self.create_socket_pair = threads.create_socket_pair
        self.event_object = threads.event_object
        self.lock_object = threads.lock_object
        self.rlock_object = threads.rlock_object
        self.spawn = threads.spawn
        self.running = False
        self.stopped = threads.event_object()
        """Set when the client is told to stop; it opens no further session then."""
        self.gate = threads.lock_object()
        """Held while `connection` changes, and from checking it until a request is queued."""
        self.connection = NO_CONNECTION
        """The number of the connection on which requests would be sent now."""
        self._connection_count = 0
        self._socket: socket.socket | None = None
        self._in_reach = threads.event_object()
        self._in_reach.set()
        self._inbox: list[Call] = []
        self._inbox_lock = threads.lock_object()

    # --- called by kazoo

    def start(self) -> None:
        """Called when the client is about to connect."""
        self.running = True
        self.stopped.clear()

    def stop(self) -> None:
        """Called when the client is about to stop."""
        self.running = False
        self.stopped.set()

    def create_connection(
        self, address: tuple[str, int], *, hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect; unlike kazoo's own function, close the socket if the handshake fails."""
        timeout = min(timeout, self._handshake_s)
        if not self._in_reach.wait(timeout):
            raise self.timeout_exception("a test has cut the network")
        connection = socket.create_connection(address, timeout)
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_hostname=hostname)
        except BaseException:
            connection.close()
            raise
        self._socket = connection
        return connection

    def select(
        self, reading: Any, writing: Any, _: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as `select.select` does; kazoo's own creates four epoll objects for each request."""
        if decrypted := held_by_tls(reading):
            return decrypted, [], []
        if self.connection == NO_CONNECTION and timeout is not None:
            timeout = min(timeout, self._handshake_s)
        poll = select.poll()
        by_fd = {}
        for events, sockets in ((select.POLLIN, reading), (select.POLLOUT, writing)):
            for end in sockets:
                poll.register(end, events)
                by_fd[end.fileno()] = end
        ready = [by_fd[fd] for fd, _ in poll.poll(None if timeout is None else timeout * 1000)]
        return (
            [end for end in reading if end in ready],
            [end for end in writing if end in ready],
            [],
        )

    def async_result(self) -> "Answer":
        """Create the object in which kazoo puts an answer."""
        return Answer(self)

    def dispatch_callback(self, callback: Any) -> None:
        """Queue a watch call."""
        self.put(partial(callback.func, *callback.args))

    # --- on kazoo's connection thread

    def put(self, call: Call) -> None:
        """Have the loop make this call after all earlier ones.  Thread-safe."""
        with self._inbox_lock:
            self._inbox.append(call)
            is_first = len(self._inbox) == 1
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: no receiver is left
                return

    def connected(self) -> int:
        """Number a new connection."""
        with self.gate:
            self._connection_count += 1
            self.connection = self._connection_count
            return self.connection

    def disconnected(self) -> None:
        """Let no request be sent until the loop has learned of the next connection."""
        with self.gate:
            self.connection = NO_CONNECTION

    # --- on the loop

    def cut_off(self) -> None:
        """End the connection, and make no other one until `let_through`."""
        self._in_reach.clear()
        if self._socket is not None:
            with suppress(OSError):  # it has ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)

    def let_through(self) -> None:
        """Make connections again."""
        self._in_reach.set()

    def in_thread(self, function: Callable[[], None]) -> asyncio.Future[None]:
        """Run a blocking function of kazoo in a thread; the future is done when it has returned."""
        done = self._loop.create_future()

        def finish() -> None:
            if not done.done():
                done.set_result(None)

        def run() -> None:
            try:
                function()
            finally:
                self.put(finish)

        self.spawn(run)
        return done

    def _drain(self) -> None:
        with self._inbox_lock:
            calls, self._inbox = self._inbox, []
        for index, call in enumerate(calls, 1):
            try:
                call()
            except BaseException:  # from a callback: the loop reports it, the rest still runs
                with self._inbox_lock:
                    self._inbox[:0] = calls[index:]
                self._loop.call_soon(self._drain)
                raise


class Answer:
    """kazoo's `IAsyncResult`: linked callbacks are called on the loop, in wire order."""

    __slots__ = ("_handler", "_links", "_ready", "_told", "exception", "value")

    def __init__(self, handler: LoopHandler) -> None:
        self._handler = handler
        self._links: list[Callable[[Answer], None]] = []
        self._ready = False
        self._told = False
        self.value: Any = None
        self.exception: Exception | None = None

    def ready(self) -> bool:
        """Whether there is an answer."""
        return self._ready

    def successful(self) -> bool:
        """Whether there is an answer, and it is no error."""
        return self._ready and self.exception is None

    def set(self, value: Any = None) -> None:
        """Set the result."""
        self.value = value
        self._set()

    def set_exception(self, exception: Exception) -> None:
        """Set an error."""
        if isinstance(exception, ConnectionLoss):
            # kazoo is about to fail all requests this way. It would send anything queued from now
            # on over the next connection, before the requests that the loop has to send again.
            self._handler.disconnected()
        self.exception = exception
        self._set()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The result, if it is ready.  Raises: its error, or kazoo's timeout if it is not ready."""
        if not self._ready:
            raise self._handler.timeout_exception
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        """See `get`."""
        return self.get()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether there is an answer; does not wait, because that would block the loop."""
        return self._ready

    def rawlink(self, callback: "Callable[[Answer], None]") -> None:
        """Call `callback(self)` on the loop once there is an answer."""
        self._links.append(callback)
        if self._told:
            self._handler.put(self._tell)

    def unlink(self, callback: "Callable[[Answer], None]") -> None:
        """Remove a callback."""
        if callback in self._links:
            self._links.remove(callback)

    def _set(self) -> None:
        self._ready = True
        self._handler.put(self._tell)

    def _tell(self) -> None:
        self._told = True
        links, self._links = self._links, []
        for link in links:
            link(self)
