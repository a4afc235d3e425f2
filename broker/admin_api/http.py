"""HTTP/1.1 on one connection: a request comes in whole, within limits, and is answered.

h11 knows the protocol; here are the limits and deadlines. A request is checked when its head has
arrived, so that a stranger's body is not even read.
"""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import h11

from .problems import Problem

HEAD_BYTES_MAX: Final = 16 << 10
BODY_BYTES_MAX: Final = 2 << 20
READ_BYTES: Final = 16 << 10
IDLE_S: Final = 60.0
"""How long a connection may be open without a request."""
REQUEST_S: Final = 10.0
"""How long a request may take to arrive."""
ANSWER_S: Final = 30.0
"""How long an answer may take to be received."""
LINGER_S: Final = 1.0
"""How long a client whose request was refused may go on sending it. If the connection were closed
at once, the client would be told of that instead of the reason."""
HTTP_VERSIONS: Final = (b"1.0", b"1.1")
HEADERS: Final = {
    "Content-Type": "application/json",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class Head(NamedTuple):
    """A request without its body."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    """By names in small letters; of a header that comes twice, the values with a comma."""


class Answer(NamedTuple):
    """The status and the JSON of an answer."""

    status: int
    content: Any
    headers: Mapping[str, str] = {}


Respond = Callable[[bytes], Awaitable[Answer]]
Admit = Callable[[Head], Respond]
"""Checks the head of a request; returns what makes the answer from the body.  Raises: Problem."""


class HttpConnection:
    """A connection of a client; `serve` returns when it is closed."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, admit: Admit
    ) -> None:
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(high=0)  # `drain` waits until all is sent
        self._admit = admit
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._method = ""

    async def serve(self) -> None:
        """Answer requests one after the other."""
        try:
            while await self._has_begun() and await self._serve_one():
                self._http.start_next_cycle()
        except (OSError, TimeoutError):
            pass  # the client has gone, or does not take its answer
        finally:
            self._writer.transport.abort()

    async def refuse(self, problem: Problem) -> None:
        """Answer any request with this, and close the connection."""
        with contextlib.suppress(OSError, TimeoutError):
            await self._send(_answer_of(problem), keep=False)
            await self._linger()
        self._writer.transport.abort()

    async def _has_begun(self) -> bool:
        """Wait for the first bytes of a request."""
        if self._http.trailing_data[0]:
            return True
        async with asyncio.timeout(IDLE_S):
            data = await self._reader.read(READ_BYTES)
        self._http.receive_data(data)
        return bool(data)

    async def _serve_one(self) -> bool:
        """Answer one request; returns whether another may follow."""
        try:
            async with asyncio.timeout(REQUEST_S):
                respond, body = await self._receive()
        except Problem as problem:
            await self._send(_answer_of(problem), keep=False)
            await self._linger()
            return False
        except TimeoutError:
            late = Problem(408, f"the request did not arrive within {REQUEST_S:g} s")
            await self._send(_answer_of(late), keep=False)
            return False
        try:
            answer = await self._answer(respond, body)
        except Problem as problem:
            answer = _answer_of(problem)
        await self._send(answer, keep=True)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _answer(self, respond: Respond, body: bytes) -> Answer:
        """What a resource answers.  A client of a GET that goes away is no longer waited for.

        What a POST or DELETE has begun is done, whoever is still there to hear of it.
        Raises: Problem, TimeoutError.
        """
        if self._method != "GET":
            return await respond(body)
        async with asyncio.timeout(None) as patience:
            leaving = asyncio.create_task(self._notice_end(patience))
            try:
                return await respond(body)
            finally:
                leaving.cancel()
                await asyncio.wait([leaving])  # only one may read at a time

    async def _notice_end(self, patience: asyncio.Timeout) -> None:
        """Let a timeout expire when the client has closed the connection."""
        try:
            data = await self._reader.read(READ_BYTES)
        except OSError:
            data = b""
        self._http.receive_data(data)  # a next request may come early
        if not data:
            patience.reschedule(0)

    async def _receive(self) -> tuple[Respond, bytes]:
        """Raises: Problem, ConnectionError."""
        try:
            request = await self._next_event()
            if not isinstance(request, h11.Request):
                raise ConnectionResetError
            if request.http_version not in HTTP_VERSIONS:
                raise Problem(505, "this is not HTTP/1.1")
            head = _head_of(request)
            self._method = head.method
            respond = self._admit(head)
            return respond, await self._receive_body()
        except h11.RemoteProtocolError as error:
            if error.error_status_hint == 431:
                raise Problem(431, f"the headers are larger than {HEAD_BYTES_MAX} bytes") from None
            raise Problem(error.error_status_hint, f"this is not HTTP/1.1: {error}") from None

    async def _receive_body(self) -> bytes:
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._writer.write(self._http.send(go_on) or b"")
        body = bytearray()
        while isinstance(event := await self._next_event(), h11.Data):
            body += event.data
            if len(body) > BODY_BYTES_MAX:
                raise Problem(413, f"the body is larger than {BODY_BYTES_MAX} bytes")
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionResetError
        return bytes(body)

    async def _next_event(self) -> object:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(READ_BYTES))
        return event

    async def _send(self, answer: Answer, *, keep: bool) -> None:
        body = json.dumps(answer.content, ensure_ascii=False).encode()
        headers = {**HEADERS, **answer.headers, "Content-Length": str(len(body))}
        if not keep:
            headers["Connection"] = "close"
        reason = HTTPStatus(answer.status).phrase
        parts: list[h11.Event] = [
            h11.Response(status_code=answer.status, reason=reason, headers=list(headers.items()))
        ]
        if self._method != "HEAD":
            parts.append(h11.Data(data=body))
        parts.append(h11.EndOfMessage())
        self._writer.write(b"".join(self._http.send(part) or b"" for part in parts))
        async with asyncio.timeout(ANSWER_S):
            await self._writer.drain()

    async def _linger(self) -> None:
        """Let the client read the answer before the connection ends."""
        self._writer.write_eof()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while await self._reader.read(READ_BYTES):
                    pass


def _head_of(request: h11.Request) -> Head:
    headers: dict[str, str] = {}
    for raw_name, raw_value in request.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    target = request.target.decode("ascii", "backslashreplace")
    path, _, query = target.partition("?")
    return Head(request.method.decode("ascii"), path, query, headers)


def _answer_of(problem: Problem) -> Answer:
    return Answer(problem.status, {"error": problem.sentence}, problem.headers)
