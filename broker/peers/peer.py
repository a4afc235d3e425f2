"""A connection to another broker, which sends one request at a time and reconnects."""

import asyncio
import itertools
import sys
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import API_VERSIONS_KEY, encode_request, read_response_header
from odradek.protocol.schema import Message

from ..pause import Pause
from .connection import LATE, PeerConnection, reason_of
from .connection import PeerFailed as PeerFailed
from .security import Security

if TYPE_CHECKING:
    from ..network.network import Link
    from ..sasl.client import Credentials
    from .negotiation import Negotiated

RESPONSE_BYTES_MAX: Final = 128 << 20


class Setup(NamedTuple):
    """The timing of connection attempts, in milliseconds.

    `timeout_ms` doubles with each consecutive failed attempt, up to `timeout_max_ms`.
    """

    timeout_ms: int = 10_000
    timeout_max_ms: int = 30_000
    backoff_ms: int = 50
    """The minimum time between the starts of two attempts."""


class Peer:
    """A connection that is opened when it is needed, and reopened after a failure.

    One request is in flight at a time; others wait their turn. A failed request is not retried:
    only the caller knows whether that is safe. If `ask` was cancelled or has failed, the request
    may or may not have taken effect.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_ms: int,
        setup: Setup = Setup(),  # noqa: B008 - immutable
        security: Security | None = None,
        negotiates: bool = False,
        response_bytes_max: int = RESPONSE_BYTES_MAX,
        pause: Pause | None = None,
        link: "Link | None" = None,
    ) -> None:
        """`timeout_ms` is for one request, including connecting.

        `security`: None is PLAINTEXT.  ApiVersions is sent only if it `negotiates`; otherwise the
        versions are known (`versions`).  While `pause` is on, nothing is sent.  `link`: in
        tests, what lies between.
        """
        self.host = host
        self.port = port
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._setup = setup
        self._security = security or Security()
        self._negotiates = negotiates
        self._response_bytes_max = response_bytes_max
        self._pause = pause or Pause()
        self._link = link
        self._turn = asyncio.Lock()
        self._correlation_ids = itertools.count()
        self._connection: PeerConnection | None = None
        self._negotiated: Negotiated | None = None
        self._last_answer: Message | None = None
        self._deadline: asyncio.Timeout | None = None
        self._close_count = 0
        self._failures = 0
        self._next_try_s = 0.0

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    async def ask(self, request: Message, version: int) -> Message:
        """Send a request and return the response.  Raises: PeerFailed.

        Its RECORDS are views, which the next `ask` releases. A peer that negotiates may use a lower
        version, which the response then has too.
        """
        close_count = self._close_count
        async with self._turn:
            if self._pause.is_on:
                await self._pause.over()
            if self._last_answer is not None:
                self._last_answer.release()
                self._last_answer = None
            if self._close_count != close_count:
                raise PeerFailed(f"{self}: closed")
            try:
                if self._connection is not None:
                    self._last_answer = await self._ask(request, version)
                else:
                    async with asyncio.timeout(self._timeout_s) as self._deadline:
                        self._last_answer = await self._ask(request, version)
            except TimeoutError:
                reason = "closed" if self._close_count != close_count else LATE
                raise PeerFailed(f"{self}: {reason}") from None
            except PeerFailed as failed:
                raise PeerFailed(f"{self}: {failed}") from failed.__cause__
            finally:
                self._deadline = None
            return self._last_answer

    def close(self) -> None:
        """Disconnect; waiting callers get PeerFailed.  Idempotent; `ask` reconnects."""
        self._close_count += 1
        if self._connection is not None:
            self._connection.fail("closed")
        if self._deadline is not None and not self._deadline.expired():
            self._deadline.reschedule(0)  # ends an attempt to connect

    async def _ask(self, request: Message, version: int) -> Message:
        connection = self._connection
        if connection is None:
            connection = await self._connect()
            if self._security.credentials is not None:
                await self._log_in(connection, self._security.credentials)
            if self._negotiates:
                await self._negotiate(connection)
        elif connection.log_in_at_s is not None:
            await self._log_in_again(connection, connection.log_in_at_s)
        if self._negotiated is not None:
            version = self._negotiated.version_for(request, version)
        return await self._exchange(connection, request, version)

    async def _negotiate(self, connection: PeerConnection) -> None:
        """Ask for the versions on a new connection.  Raises: PeerFailed."""
        from .negotiation import negotiate  # not needed at startup

        try:
            self._negotiated = await negotiate(partial(self._exchange, connection))
        except PeerFailed as failed:
            connection.fail(str(failed))
            raise

    async def _log_in(self, connection: PeerConnection, credentials: "Credentials") -> None:
        """Log in, and note when to do it again.  Raises: PeerFailed."""
        from .login import log_in  # not needed without SASL

        begun_s = asyncio.get_running_loop().time()
        try:
            again_after_s = await log_in(partial(self._exchange, connection), credentials)
        except PeerFailed as failed:
            connection.fail(str(failed))
            raise
        connection.log_in_at_s = None if again_after_s is None else begun_s + again_after_s

    async def _log_in_again(self, connection: PeerConnection, due_s: float) -> None:
        """Log in again on the same connection (KIP-368), if it is time.  Raises: PeerFailed."""
        credentials = self._security.credentials
        if credentials is not None and asyncio.get_running_loop().time() >= due_s:
            await self._log_in(connection, credentials)

    async def _connect(self) -> PeerConnection:
        """Connect, no sooner than the backoff allows.  Raises: PeerFailed."""
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next_try_s - loop.time())
        setup = self._setup
        self._next_try_s = loop.time() + setup.backoff_ms / 1000
        timeout_ms = min(setup.timeout_ms << min(self._failures, 20), setup.timeout_max_ms)
        self._failures += 1
        made = self._new_connection(lambda: self._forget(made))
        self._negotiated = None
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._link is not None:
                    await self._link.cross()
                await loop.create_connection(
                    lambda: made, self.host, self.port, ssl=self._security.context
                )
        except (OSError, ValueError, OverflowError) as error:  # or timeout, bad address
            made.fail("not reached")
            raise PeerFailed(f"can't be reached: {reason_of(error)}") from error
        except BaseException:
            made.fail("cancelled")
            raise
        self._failures = 0
        self._connection = made
        return made

    def _new_connection(self, on_end: Callable[[], None]) -> PeerConnection:
        if self._link is None:
            return PeerConnection(self._response_bytes_max, on_end)
        from .distant import DistantConnection  # only tests need it

        return DistantConnection(self._response_bytes_max, on_end, self._link)

    def _forget(self, ended: PeerConnection) -> None:
        if self._connection is ended:
            self._connection = None

    async def _exchange(
        self, connection: PeerConnection, request: Message, version: int
    ) -> Message:
        """Send one request and decode its answer.  Raises: PeerFailed."""
        correlation_id = next(self._correlation_ids) & 0x7FFFFFFF
        frame = await connection.exchange(
            encode_request(request, version, correlation_id, self._client_id), self._timeout_s
        )
        try:
            return _read_answer(frame, response_class(type(request)), version, correlation_id)
        except MalformedMessage as error:
            connection.fail("answered what is not understood")
            raise PeerFailed(f"answered what is not understood: {error}") from error


def _read_answer(
    frame: memoryview, kind: type[Message], version: int, correlation_id: int
) -> Message:
    """Decode an answer.  Raises: MalformedMessage."""
    flexible = version in kind.FLEXIBLE and kind.API_KEY != API_VERSIONS_KEY
    answered, position = read_response_header(frame, flexible=flexible)
    if answered != correlation_id:
        raise MalformedMessage(f"this is the answer to {answered}, not to {correlation_id}")
    answer, end = kind.decode(frame, version, position)
    if end != len(frame):
        raise MalformedMessage(f"{len(frame) - end} bytes follow the answer")
    return answer


@cache
def response_class(request: type[Message]) -> type[Message]:
    """The response class for a request class; both are declared in the same module."""
    name = request.__name__.removesuffix("Request")
    found: type[Message] = getattr(sys.modules[request.__module__], f"{name}Response")
    return found
