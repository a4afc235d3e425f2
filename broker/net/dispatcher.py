"""Handles the requests of one connection in order, and answers them in the same order.

A frame is decoded, passes the access check (`access.py`) and goes to its API's handler. If the
handler knows the answer immediately, it is sent before the next frame is handled. An answer that
has to wait is *parked*: further frames stay unread, as in Kafka. The exception is a Produce that
follows Produces waiting for a flush or for the high watermark; their number and size are limited.
It does not follow a Produce that has not appended yet, else it could overtake that one in the log.
A connection that closes cancels its parked answers.

A client that exceeds a quota is muted once its answer is sent: nothing more is handled for a while.
A mute stands at the end of the parked answers, as an answer that is never sent.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Final, Protocol

from odradek.protocol.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from odradek.protocol.framing import (
    API_VERSIONS_KEY,
    FRAME_SIZE,
    encode_response,
    read_client_id,
    read_request_start,
)
from odradek.protocol.primitives import Writer
from odradek.protocol.schema import Message

from ..access import answer_of
from ..handlers import Answer, Api, Need
from ..quotas import Usage
from .call import Call, Client, CloseConnection
from .eager_future import EagerFuture

if TYPE_CHECKING:
    from ..node import Node
    from ..runtime import Clock, Timer

logger = logging.getLogger(__name__)

PRODUCE_KEY: Final = 0
CONTROLLED_SHUTDOWN_KEY: Final = 7
HEADER_WITHOUT_CLIENT_BYTES: Final = 8  # of request version 0 only
PARKED_PRODUCES_MAX: Final = 64
# The size of their requests. Only a result for each partition is kept, but for a request of many
# tiny batches that takes much memory.
PARKED_PRODUCES_BYTES_MAX: Final = 16 << 20
_PRODUCE_START: Final = PRODUCE_KEY.to_bytes(2, "big")


class ClientConnection(Client, Protocol):
    """The client's connection, as the dispatcher sees it."""

    active_ms: int
    """When bytes were last received or sent, by the monotonic clock."""

    def send(self, out: Writer) -> None:
        """Send a whole frame with its splices, after all earlier frames."""

    def gather(self) -> None:
        """Hold back what is sent until `send_gathered`, as more follows immediately."""

    def send_gathered(self) -> None:
        """Send the answers that were held back."""

    def resume(self) -> None:
        """Continue with the frames that were left unread."""

    def close(self, reason: str) -> None:
        """Hang up; a non-empty reason is logged."""


class Parked:
    """An answer that is not known yet, or that waits for an earlier answer."""

    __slots__ = (
        "api",
        "call",
        "came_at_ms",
        "correlation_id",
        "is_kept",
        "response",
        "size_bytes",
        "task",
    )

    def __init__(
        self, api: Api, call: Call, correlation_id: int, size_bytes: int, came_at_ms: int
    ) -> None:
        """`size_bytes` is the size of the request."""
        self.api = api
        self.size_bytes = size_bytes
        self.call = call
        self.correlation_id = correlation_id
        self.came_at_ms = came_at_ms
        self.response: Message | None = None
        self.task: asyncio.Future[Message | None] | None = None
        self.is_kept = False
        """Whether it is a Produce that has not appended yet, and has copied its batches."""


class Mute(Parked):
    """The time for which a client is throttled; its answer is None."""

    __slots__ = ("_clock", "_timer", "_until_ms")

    def __init__(self, api: Api, client: Client, clock: "Clock") -> None:
        super().__init__(api, Call(0, None, client), 0, 0, 0)
        self.is_kept = True  # so no Produce may follow, either
        self.task = asyncio.get_running_loop().create_future()
        self._clock = clock
        self._until_ms = 0
        self._timer: Timer | None = None

    def last(self, throttle_ms: int) -> None:
        """Last for this time from now, unless it lasts longer already."""
        until_ms = self._clock.timer_ms() + throttle_ms
        if until_ms > self._until_ms:
            self.close()
            self._until_ms = until_ms
            self._timer = self._clock.call_at(until_ms, self._end)

    def close(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _end(self) -> None:
        assert self.task is not None
        if not self.task.done():
            self.task.set_result(None)


class Dispatcher:
    """The requests and answers of one connection."""

    __slots__ = ("_client", "_node", "_parked_bytes", "apis", "parked")

    def __init__(self, node: "Node", client: ClientConnection) -> None:
        self._node = node
        self.apis = node.apis_on(client.listener_name)
        self._client = client
        self.parked: deque[Parked] = deque()
        """Answers not sent yet, the oldest first."""
        self._parked_bytes = 0

    @property
    def is_held(self) -> bool:
        """Whether no frame may be handled before a parked answer is sent."""
        parked = self.parked
        return bool(parked) and (
            parked[0].api.key != PRODUCE_KEY  # if the first is a Produce, all are
            or parked[-1].is_kept
            or len(parked) >= PARKED_PRODUCES_MAX
            or self._parked_bytes >= PARKED_PRODUCES_BYTES_MAX
        )

    def may_follow(self, frame: memoryview | bytes) -> bool:
        """Whether `frame` may be handled now; its beginning is enough to tell."""
        return not self.parked or (frame[:2] == _PRODUCE_START and not self.is_held)

    def on_frame(self, frame: memoryview) -> None:
        """Handle one request: send its answer or park it, unless the request has none.

        Raises: MalformedMessage, CloseConnection: the caller closes the connection.
        """
        quotas = self._node.quotas
        usage = Usage(quotas) if quotas.are_set else None
        api_key, version, correlation_id = read_request_start(frame)
        api = self.apis.get(api_key)
        if api is None:
            raise UnsupportedVersion(f"unknown API key {api_key}")
        if not api.first <= version <= api.last and not self._serves_v2(api, version):
            if api_key == API_VERSIONS_KEY:
                self._node.metrics.requests[api.name].count += 1
                self.answer_unknown_api_versions(api, correlation_id)
                return
            raise UnsupportedVersion(f"{api.name} v{version}")
        if api_key != PRODUCE_KEY:
            size_bytes_max = self._node.config.odradek_non_produce_request_bytes_max
            if len(frame) > size_bytes_max:
                raise MalformedMessage(
                    f"{api.name} of {len(frame)} bytes: odradek.non.produce.request.bytes.max is "
                    f"{size_bytes_max}"
                )
        if version == 0 and api_key == CONTROLLED_SHUTDOWN_KEY:
            client_id, position = None, HEADER_WITHOUT_CLIENT_BYTES
        else:
            client_id, position = read_client_id(frame, flexible=version >= api.flexible)
        request, _ = api.request.decode(frame, version, position)
        call, node = Call(version, client_id, self._client), self._node
        if usage is not None and self._client.listener_name not in quotas.exempt_listeners:
            usage.identify(self._client.principal.name, client_id, len(frame))
            call.usage = usage
        came_at_ms = self._client.active_ms
        counts = node.metrics.requests[api.name]
        counts.count += 1
        counts.received_bytes += len(frame)
        try:
            if node.interceptor is None:
                answer = answer_of(api, request, call, node)
            else:
                answer = node.interceptor.answer(api, request, call, node, frame)
        finally:
            request.release()
        if call.usage is not None and self._is_exempt(api, answer):
            call.usage = None
        if answer is None:
            if call.usage is not None:
                self._throttle(api, call, None)
            return
        if isinstance(answer, Message) and not self.parked:
            self.send(api, call, correlation_id, answer, came_at_ms)
            return
        if call.usage is not None:
            call.usage.pause()
        parked = Parked(api, call, correlation_id, len(frame), came_at_ms)
        if isinstance(answer, Message):
            parked.response = answer
            self._owe(parked)
        else:
            self._park(answer, parked)

    def close(self) -> None:
        """Cancel the parked answers, as the connection is closed."""
        parked, self.parked = self.parked, deque()
        self._parked_bytes = 0
        for answer in parked:
            if isinstance(answer, Mute):
                answer.close()
            task = answer.task
            if task is not None and not task.cancel() and not task.cancelled():
                answer.response = None if task.exception() else task.result()
            if answer.response is not None:
                answer.response.release()

    def _park(self, answer: Awaitable[Message | None], parked: Parked) -> None:
        if isinstance(answer, EagerFuture):
            parked.task = answer
            answer.on_end = self._on_answer
            answer.on_late = self._on_late
        else:
            parked.task = asyncio.ensure_future(answer)
            parked.task.add_done_callback(self._on_answer)
            if parked.api.key == PRODUCE_KEY:
                parked.is_kept = True
        self._owe(parked)

    def _owe(self, parked: Parked) -> None:
        self.parked.append(parked)
        self._parked_bytes += parked.size_bytes

    def _on_answer(self, task: asyncio.Future[Message | None]) -> None:
        parked = self.parked
        if not parked:  # the connection has been closed
            if not task.cancelled() and task.exception() is None:
                response = task.result()
                if response is not None:
                    response.release()
            return
        if not self._is_ready(parked[0]):
            return
        client, failure = self._client, ""
        if len(parked) > 1:
            client.gather()
        try:
            while self.parked and self._is_ready(self.parked[0]):  # sending may close us
                self._send_parked(self.parked.popleft())
        except CloseConnection as error:
            failure = str(error)
            if error.last:
                client.send(Writer(error.last))
        except (Exception, asyncio.CancelledError):  # a bug must not leave the client waiting
            logger.exception("request failed peer=%s", client.host)
            failure = "a request failed"
        client.send_gathered()
        if failure:
            client.close(failure)
        else:
            client.resume()

    def _on_late(self, task: asyncio.Future[Message | None]) -> None:
        if any(parked.task is task for parked in self.parked):
            self._client.close("an answer that tells of another leader has to wait")

    @staticmethod
    def _is_ready(parked: Parked) -> bool:
        return parked.task is None or parked.task.done()

    def _send_parked(self, parked: Parked) -> None:
        self._parked_bytes -= parked.size_bytes
        response = parked.response if parked.task is None else parked.task.result()
        api, call = parked.api, parked.call
        if call.usage is not None:
            call.usage.resume()
        if response is not None:
            self.send(api, call, parked.correlation_id, response, parked.came_at_ms)
        elif call.usage is not None:  # a Produce with acks=0
            self._throttle(api, call, None)

    def send(
        self, api: Api, call: Call, correlation_id: int, response: Message, came_at_ms: int
    ) -> None:
        """Send the answer to a request that came at `came_at_ms`, and count both."""
        version, usage = call.version, call.usage
        if usage is not None:
            self._throttle(api, call, response)
        flexible = version >= api.flexible_response
        out = encode_response(response, version, correlation_id, flexible_header=flexible)
        node = self._node
        counts = node.metrics.requests[api.name]
        (size_bytes,) = FRAME_SIZE.unpack_from(out)
        counts.sent_bytes += size_bytes
        counts.total_ms += node.clock.now_ms() - came_at_ms
        self._client.send(out)
        if call.on_sent is not None:
            call.on_sent(size_bytes)
        if usage is not None:
            usage.sent()

    @staticmethod
    def _is_exempt(api: Api, answer: Answer) -> bool:
        """Whether it is a request of a broker: not, if the client had no right to send it."""
        code = getattr(answer, "error_code", ErrorCode.NONE)
        return api.need is Need.BROKER and code != ErrorCode.CLUSTER_AUTHORIZATION_FAILED

    def _throttle(self, api: Api, call: Call, response: Message | None) -> None:
        """Settle what a request has used; if it is too much, tell the client and mute it."""
        assert call.usage is not None
        throttle_ms = call.usage.settle(
            is_produce=api.key == PRODUCE_KEY, is_answered=response is not None
        )
        # A handler may have throttled its request already.
        throttle_ms = max(throttle_ms, getattr(response, "throttle_time_ms", 0))
        if throttle_ms <= 0:
            return
        if response is not None and hasattr(response, "throttle_time_ms"):  # a few have no field
            response.throttle_time_ms = throttle_ms
        self._node.metrics.requests[api.name].throttled_ms += throttle_ms
        self._mute(api, throttle_ms)

    def _mute(self, api: Api, throttle_ms: int) -> None:
        last = self.parked[-1] if self.parked else None
        if not isinstance(last, Mute) or self._is_ready(last):
            last = Mute(api, self._client, self._node.clock)
            assert last.task is not None
            last.task.add_done_callback(self._on_answer)
            self._owe(last)
        last.last(throttle_ms)

    def _serves_v2(self, api: Api, version: int) -> bool:
        """Whether a version that belongs to version 2 of transactions is served."""
        last = api.last_with(self._node.config.odradek_transaction_version)
        return api.last < version <= last

    def answer_unknown_api_versions(self, api: Api, correlation_id: int) -> None:
        """Tell a client newer than this broker, in v0, which versions of this API it may use.

        Brokers before KIP-511 do not tell, and so does one that pretends to be older.
        """
        from odradek.protocol.messages.k18_api_versions import ApiVersion, ApiVersionsResponse

        own = ApiVersion(api_key=api.key, min_version=api.first, max_version=api.last)
        code = ErrorCode.UNSUPPORTED_VERSION
        told = [own] if api.last >= api.flexible else []
        response = ApiVersionsResponse(error_code=code, api_keys=told)
        call = Call(0, None, self._client)
        self.send(api, call, correlation_id, response, self._client.active_ms)
