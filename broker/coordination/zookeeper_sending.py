"""Sends one session's requests to ZooKeeper: in order, with a limit on those in flight.

Requests cut off by a lost connection are recovered on the next one, before anything new is sent:
reads are sent again, and for each write the sender first checks whether it took effect.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kazoo.exceptions import ConnectionLoss, NoNodeError

from .interface import ANY_VERSION, CoordinationError, CoordinationLost, SessionExpired, Stat
from .zookeeper_client import SessionClient
from .zookeeper_handler import NO_CONNECTION, Answer
from .zookeeper_requests import Below, Read, Request, Write, error_of, stat_of
from .zookeeper_traces import results_of

logger = logging.getLogger(__name__)

CUTS_MAX: Final = 10
"""A request cut off more often than this fails: it may itself make the server disconnect."""


class CutOff(Exception):
    """The connection is lost; continue on the next one."""


class RequestSender:
    """Sends requests through one kazoo client.  All of it runs on the loop."""

    def __init__(
        self,
        client: SessionClient,
        below: Below,
        *,
        in_flight_max: int,
        on_read: Callable[[Read], None],
    ) -> None:
        """`on_read` is called for every successful read, in wire order."""
        self._client = client.kazoo
        self._handler = client.handler
        self._below = below
        self._in_flight_max = in_flight_max
        self._on_read = on_read
        self._session_id = 0
        self._connection = NO_CONNECTION
        self._is_connected = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._waiting: deque[Request] = deque()
        self._in_flight: dict[Request, None] = {}
        self._lost: list[Request] = []
        self._cut: deque[Request] = deque()
        self._recovery: asyncio.Task[None] | None = None
        self._end: CoordinationError | None = None

    def submit(self, request: Request) -> None:
        """Send a request after all earlier ones."""
        if self._end is not None:
            request.fail(_again(self._end))
            return
        self._is_idle.clear()
        self._waiting.append(request)
        self._pump()

    async def connection(self) -> None:
        """Return once there is a connection."""
        await self._is_connected.wait()

    async def idle(self) -> None:
        """Return once everything is answered."""
        await self._is_idle.wait()

    def connected(self, connection: int, session_id: int) -> None:
        """Start sending requests on this connection."""
        self._connection = connection
        self._session_id = session_id
        self._is_connected.set()
        self._pump()

    def suspended(self, last_zxid: int) -> None:
        """Stop sending, and start to recover; the last answer was as of transaction `last_zxid`."""
        self._connection = NO_CONNECTION
        self._is_connected.clear()
        for request in reversed(self._lost):
            request.since_zxid = last_zxid
            request.cut_count += 1
            self._cut.appendleft(request)
        self._lost.clear()
        if self._cut and (self._recovery is None or self._recovery.done()):
            self._recovery = asyncio.create_task(self._recover(), name="zookeeper-recovery")

    def end(self, error: CoordinationError) -> None:
        """Fail all pending and all later requests."""
        self._end = error
        if self._recovery is not None:
            self._recovery.cancel()
        for request in (*self._in_flight, *self._lost, *self._cut, *self._waiting):
            request.fail(_again(error))
        for requests in (self._in_flight, self._lost, self._cut, self._waiting):
            requests.clear()
        self._is_idle.set()

    def _pump(self) -> None:
        while self._waiting and not self._cut and len(self._in_flight) < self._in_flight_max:
            if not self._send(self._waiting[0]):
                return
            self._waiting.popleft()
        if not (self._waiting or self._in_flight or self._lost or self._cut):
            self._is_idle.set()

    def _send(self, request: Request) -> bool:
        answer = self._ask(lambda: request.send(self._client, self._below))
        if answer is None:
            return False
        self._in_flight[request] = None
        answer.rawlink(partial(self._answered, request))
        return True

    def _ask(self, send: Callable[[], Answer]) -> Answer | None:
        """Queue a request with kazoo; None if it would not be sent on the connection known here."""
        with self._handler.gate:
            if self._handler.connection != self._connection or not self._connection:
                return None
            return send()

    def _answered(self, request: Request, answer: Answer) -> None:
        if request not in self._in_flight:
            return  # `end` has failed all requests
        del self._in_flight[request]
        if isinstance(answer.exception, ConnectionLoss):
            self._lost.append(request)
            return
        if answer.exception is not None:
            request.fail(request.error(answer.exception))
        else:
            self._take(request, answer.value)
        self._pump()

    def _take(self, request: Request, value: Any) -> None:
        try:
            result = request.result(value, self._below)
        except CoordinationError as error:
            request.fail(error)
            return
        if isinstance(request, Read):
            self._on_read(request)
        if not request.answer.done():
            request.answer.set_result(result)

    # --- after a lost connection

    async def _recover(self) -> None:
        """Recover all requests that were cut off, in order, over as many connections as needed."""
        claimed: set[str] = set()
        while self._cut:
            await self._is_connected.wait()
            request = self._cut[0]
            try:
                await self._sort_out(request, claimed)
            except CutOff:
                await asyncio.sleep(0)
                continue
            self._cut.remove(request)
        self._pump()

    async def _sort_out(self, request: Request, claimed: set[str]) -> None:
        """Answer the request, or send it again.  Raises: CutOff."""
        if request.cut_count > CUTS_MAX:
            request.fail(CoordinationLost(f"the connection was lost {request.cut_count} times"))
            return
        if isinstance(request, Write):
            try:
                await self._sync()
                results = await results_of(
                    request.ops,
                    self,
                    since_zxid=request.since_zxid,
                    session_id=self._session_id,
                    claimed=claimed,
                )
            except CoordinationError as error:
                request.fail(error)
                return
            if results is not None:
                claimed.update(result for result in results if isinstance(result, str))
                if not request.answer.done():
                    request.answer.set_result(results)
                return
        if not self._send(request):
            raise CutOff

    async def get(self, path: str) -> tuple[bytes, Stat] | None:
        """The data and Stat of a node, or None.  Raises: CutOff, CoordinationError."""
        try:
            data, stat = await self._asked(lambda: self._client.get_async(self._full(path)), path)
        except NoNodeError:
            return None
        return data or b"", stat_of(stat)

    async def children(self, path: str) -> list[str]:
        """A node's children by name; none if it is gone.  Raises: CutOff, CoordinationError."""
        try:
            names: list[str] = await self._asked(
                lambda: self._client.get_children_async(self._full(path)), path
            )
        except NoNodeError:
            return []
        return names

    async def _sync(self) -> None:
        """Let the server of this connection catch up with the leader."""

        # A multi passes through the leader. kazoo's own sync is answered in two steps.
        def send() -> Answer:
            transaction = self._client.transaction()
            transaction.check(self._full("/"), ANY_VERSION)
            answer: Answer = transaction.commit_async()
            return answer

        await self._asked(send, "/")

    def _full(self, path: str) -> str:
        return self._below.full(path)

    async def _asked(self, send: Callable[[], Answer], path: str) -> Any:
        """Send and await the answer.  Raises: CutOff, NoNodeError, CoordinationError."""
        answer = self._ask(send)
        if answer is None:
            raise CutOff
        told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.rawlink(lambda _: None if told.done() else told.set_result(None))
        await told
        if isinstance(answer.exception, ConnectionLoss):
            raise CutOff
        if answer.exception is not None and not isinstance(answer.exception, NoNodeError):
            raise error_of(answer.exception, path)
        return answer.get()


def _again(error: CoordinationError) -> CoordinationError:
    """A new exception for each caller, because a raised one collects the raiser's traceback."""
    if isinstance(error, SessionExpired):
        return SessionExpired(str(error))
    lost = CoordinationLost(str(error))
    lost.__cause__ = error.__cause__
    return lost
