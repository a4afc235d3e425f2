"""How kazoo's connection thread speaks to the event loop: through one queue, in wire order.

kazoo knows event loops of a kind, its *handlers*; this one is for asyncio.  kazoo's own handler for
threads runs watch callbacks and completions on two threads, so that an event and the answer that
shows the change may swap places.  Here the connection thread puts everything that it learns
(answers, watch events, states of the session) into one queue, which the loop empties; it is woken
once for all that has gathered.

Imported only where kazoo is used.
"""

import asyncio
import select
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import ConnectionLoss
from kazoo.handlers.threading import KazooTimeoutError, SequentialThreadingHandler

if TYPE_CHECKING:
    from ssl import SSLContext

Call = Callable[[], None]
NO_CONNECTION: Final = 0


class LoopHandler:
    """An `IHandler` of kazoo for one client and the running loop; speaks TLS if it has `tls`.

    A server has `handshake_s` to take up the session. One that is just starting may take a
    connection and never say a word; kazoo itself would wait until the session has expired.
    """

    name = "asyncio_handler"
    timeout_exception = KazooTimeoutError

    def __init__(self, tls: "SSLContext | None" = None, *, handshake_s: float) -> None:
        self._tls = tls
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        threads = SequentialThreadingHandler()  # never started: it makes locks and threads
        self.sleep_func = threads.sleep_func
        self.socket = threads.socket
        self.create_socket_pair = threads.create_socket_pair
        self.event_object = threads.event_object
        self.lock_object = threads.lock_object
        self.rlock_object = threads.rlock_object
        self.spawn = threads.spawn
        self.running = False
        self.stopped = threads.event_object()
        """Set once the client is told to stop: it opens no further session then."""
        self.gate = threads.lock_object()
        """Held while `connection` changes, and from the look at it until a request is queued."""
        self.connection = NO_CONNECTION
        """The number of the connection on which requests would go out now."""
        self._connection_count = 0
        self._inbox: list[Call] = []
        self._inbox_lock = threads.lock_object()

    # --- called by kazoo

    def start(self) -> None:
        """The client is about to connect."""
        self.running = True
        self.stopped.clear()

    def stop(self) -> None:
        """The client is about to end."""
        self.running = False
        self.stopped.set()

    def create_connection(
        self, address: tuple[str, int], *, hostname: str, timeout: float, **_: Any
    ) -> socket.socket:
        """Connect; kazoo's own would leave the socket open if the handshake fails."""
        connection = socket.create_connection(address, min(timeout, self._handshake_s))
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                return self._tls.wrap_socket(connection, server_hostname=hostname)
        except BaseException:
            connection.close()
            raise
        return connection

    def select(
        self, reading: Any, writing: Any, _: Any, timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """Wait as `select.select` does; kazoo's own makes an epoll for each request, four times."""
        decrypted = [end for end in reading if getattr(end, "pending", int)()]
        if decrypted:  # by TLS, ahead of kazoo's reading: nothing more need come from the wire
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
        """Where kazoo puts what the server says."""
        return Answer(self)

    def dispatch_callback(self, callback: Any) -> None:
        """Queue the call of a watch."""
        self.put(partial(callback.func, *callback.args))

    # --- on kazoo's connection thread

    def put(self, call: Call) -> None:
        """Let the loop make this call after all earlier ones.  From any thread."""
        with self._inbox_lock:
            self._inbox.append(call)
            is_first = len(self._inbox) == 1
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:  # the loop is closed: nobody wants to know any more
                return

    def connected(self) -> int:
        """Number a new connection."""
        with self.gate:
            self._connection_count += 1
            self.connection = self._connection_count
            return self.connection

    def disconnected(self) -> None:
        """Let no request out any more until the loop has heard of it."""
        with self.gate:
            self.connection = NO_CONNECTION

    # --- on the loop

    def in_thread(self, function: Callable[[], None]) -> asyncio.Future[None]:
        """Run a function of kazoo that blocks; the result is there once it has returned."""
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
            except BaseException:  # of somebody's callback: the loop hears of it, the rest goes on
                with self._inbox_lock:
                    self._inbox[:0] = calls[index:]
                self._loop.call_soon(self._drain)
                raise


class Answer:
    """An `IAsyncResult` of kazoo: what is linked to it is called on the loop, in wire order."""

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
        """Whether there is one, and no error."""
        return self._ready and self.exception is None

    def set(self, value: Any = None) -> None:
        """Take a result."""
        self.value = value
        self._set()

    def set_exception(self, exception: Exception) -> None:
        """Take an error."""
        if isinstance(exception, ConnectionLoss):
            # kazoo is about to tell all requests so: whatever is queued from now on would be sent
            # by it on the next connection, before what the loop has to send again.
            self._handler.disconnected()
        self.exception = exception
        self._set()

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """The result of an answer that is ready.  Raises: the error."""
        if not self._ready:
            raise self._handler.timeout_exception
        if self.exception is not None:
            raise self.exception
        return self.value

    def get_nowait(self) -> Any:
        """As `get`."""
        return self.get()

    def wait(self, timeout: float | None = None) -> bool:
        """Whether there is an answer; nobody can wait for one on the loop."""
        return self._ready

    def rawlink(self, callback: "Callable[[Answer], None]") -> None:
        """Call `callback(self)` once there is an answer.  On the loop."""
        self._links.append(callback)
        if self._told:
            self._handler.put(self._tell)

    def unlink(self, callback: "Callable[[Answer], None]") -> None:
        """Forget a callback."""
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
