"""A client that has not logged in yet: its requests up to then, and its later logins.

An `Authenticator` takes the place of the connection's dispatcher, so that nothing else is handled,
and puts a dispatcher there once the client has logged in. The machine is `sasl/login.py`; here are
the frames, the deadline, and the delay before a refusal.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from odradek.protocol.errors import ErrorCode, UnsupportedVersion
from odradek.protocol.framing import (
    API_VERSIONS_KEY,
    FRAME_SIZE,
    read_client_id,
    read_request_start,
)
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsResponse
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.primitives import Writer
from odradek.protocol.schema import Message

from ..handlers import Api
from ..sasl.login import Due, Login, LoginFailed, Offer, Session
from .call import Call, CloseConnection, Principal
from .dispatcher import Dispatcher
from .endpoints import PRIVATE

if TYPE_CHECKING:
    from ..node import Node
    from .connection import Connection
    from .connections import Connections

HANDSHAKE_KEY: Final = 17
AUTHENTICATE_KEY: Final = 36
PRIVATE_TIMEOUT_S: Final = 600.0
"""Of a login of a broker of the same process: a test may slow, cut or pause them for long."""
_HANDSHAKE_START: Final = HANDSHAKE_KEY.to_bytes(2, "big")
_ALLOWED: Final = {
    Due.VERSIONS_OR_HANDSHAKE: (API_VERSIONS_KEY, HANDSHAKE_KEY),
    Due.HANDSHAKE: (HANDSHAKE_KEY,),
    Due.TOKEN: (AUTHENTICATE_KEY,),
}
# While a token is due, Kafka reads any request only to refuse it. Here these are read.
_REFUSED_BY_ANSWER: Final = (API_VERSIONS_KEY, HANDSHAKE_KEY)


class Authenticator:
    """The logins of one connection."""

    __slots__ = (
        "_connection",
        "_connections",
        "_dispatcher",
        "_login",
        "_offer",
        "_timer",
        "parked",
    )

    def __init__(
        self, connections: "Connections", connection: "Connection", offer: Offer, node: "Node"
    ) -> None:
        self._connections = connections
        self._connection = connection
        self._offer = offer
        self._dispatcher = LastingDispatcher(node, connection, self)
        self.parked: Sequence[object] = ()
        """The refusal that is held back, if any: then nothing more is handled."""
        self._begin(Login(offer))

    def begin_again(self, session: Session, now_ms: int) -> None:
        """Let a client that has logged in do so again."""
        self._begin(Login(self._offer, session, began_ms=now_ms))
        self._connection.dispatcher = self

    def _begin(self, login: Login) -> None:
        self._login = login
        self._connection.frames.frame_bytes_max = self._offer.receive_bytes_max
        self._timer = asyncio.get_running_loop().call_later(self._timeout_s, self._on_timeout)

    @property
    def _timeout_s(self) -> float:
        if self._connection.listener_name == PRIVATE.name:
            return PRIVATE_TIMEOUT_S
        return self._connections.login_timeout_ms / 1000

    @property
    def is_held(self) -> bool:
        """Whether no frame may be handled any more."""
        return bool(self.parked)

    def may_follow(self, frame: memoryview | bytes) -> bool:
        """Whether `frame` may be handled now."""
        return not self.parked

    def close(self) -> None:
        """Send nothing more, as the connection is closed."""
        if self._login.refusal:  # the client has not answered it, as it should
            self._log(self._login.refusal)
        self._timer.cancel()
        self._dispatcher.close()

    def on_frame(self, frame: memoryview) -> None:
        """Handle what a client sends that has not logged in.

        Raises: MalformedMessage: the caller closes the connection.
        """
        if self._login.due is Due.BARE_TOKEN:
            self._on_bare_token(bytes(frame))
        else:
            self._on_request(frame)
        session = self._login.session
        if session is not None:
            self._timer.cancel()
            connection = self._connection
            connection.principal = Principal("User", session.user)
            connection.frames.frame_bytes_max = self._connections.frame_bytes_max
            self._dispatcher.session = session
            connection.dispatcher = self._dispatcher

    def _on_bare_token(self, token: bytes) -> None:
        try:
            answer = self._on_token(token)
        except LoginFailed as failed:
            self._refuse(failed.reason)
            return
        out = Writer(FRAME_SIZE.pack(len(answer.auth_bytes)))
        out += answer.auth_bytes
        self._connection.send(out)

    def _on_request(self, frame: memoryview) -> None:
        api_key, version, correlation_id = read_request_start(frame)
        due = self._login.due
        is_due = api_key in _ALLOWED[due]
        if not is_due and not (due is Due.TOKEN and api_key in _REFUSED_BY_ANSWER):
            self._refuse(f"a request with API key {api_key} before the login has ended")
            return
        api = self._dispatcher.apis.get(api_key)
        if api is None:
            raise UnsupportedVersion(f"unknown API key {api_key}")
        if not api.first <= version <= api.last:
            if api_key != API_VERSIONS_KEY:
                raise UnsupportedVersion(f"{api.name} v{version}")
            self._dispatcher.answer_unknown_api_versions(api, correlation_id)
            return
        client_id, position = read_client_id(frame, flexible=version >= api.flexible)
        request, _ = api.request.decode(frame, version, position)
        call = Call(version, client_id, self._connection)
        send = partial(self._send, api, call, correlation_id)
        if not is_due:
            refusal = api.response(error_code=ErrorCode.ILLEGAL_SASL_STATE)
            self._refuse(f"{api.name} where a token is due", partial(send, refusal))
            return
        try:
            send(self._answer(api, request, call))
        except LoginFailed as failed:
            answer = failed.answer
            self._refuse(failed.reason, None if answer is None else partial(send, answer))

    def _answer(self, api: Api, request: Message, call: Call) -> Message:
        """Answer a request that is due.  Raises: LoginFailed."""
        if isinstance(request, SaslAuthenticateRequest):
            return self._on_token(request.auth_bytes)
        if isinstance(request, SaslHandshakeRequest):
            return self._login.on_handshake(request, call.version)
        answer: ApiVersionsResponse = api.handle(request, call, self._connections.node)
        if answer.error_code == ErrorCode.NONE:
            self._login.on_versions_shown()
        return answer

    def _on_token(self, token: bytes) -> SaslAuthenticateResponse:
        clock = self._connections.clock
        return self._login.on_token(token, now_ms=clock.timer_ms(), wall_ms=clock.wall_ms())

    def _send(self, api: Api, call: Call, correlation_id: int, answer: Message) -> None:
        came_at_ms = self._connection.active_ms
        self._dispatcher.send(api, call, correlation_id, answer, came_at_ms)

    def _refuse(self, reason: str, answer: Callable[[], None] | None = None) -> None:
        """Answer after a delay, so that guessing takes long, and close the connection."""
        self._log(reason)
        self._timer.cancel()
        self.parked = (reason,)

        def end() -> None:
            try:
                if answer is not None:
                    answer()
            finally:  # after a bug, too: nothing else would end the connection
                self._connection.close("")

        delay_s = self._connections.failed_login_delay_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, end)

    def _on_timeout(self) -> None:
        self._log(f"no login within {self._timeout_s * 1000:.0f} ms")
        self._connection.close("")

    def _log(self, reason: str) -> None:
        login = self._login
        self._connections.log_refused_login(
            self._connection, mechanism=login.mechanism, user=login.user, reason=reason
        )


class LastingDispatcher(Dispatcher):
    """Handles requests as long as the login lasts."""

    __slots__ = ("_authenticator", "session")

    def __init__(
        self, node: "Node", connection: "Connection", authenticator: Authenticator
    ) -> None:
        super().__init__(node, connection)
        self._authenticator = authenticator
        self.session: Session | None = None

    def close(self) -> None:
        """Cancel the parked answers, as the connection is closed; nobody logs in any more."""
        super().close()
        del self._authenticator  # they would keep each other until the collector comes

    def on_frame(self, frame: memoryview) -> None:
        """Handle one request, or begin a login.  Raises: MalformedMessage, CloseConnection."""
        session = self.session
        assert session is not None
        if session.ends_ms is not None:
            now_ms = self._node.clock.timer_ms()
            if frame[:2] == _HANDSHAKE_START and session.may_renew(now_ms):
                self._authenticator.begin_again(session, now_ms)
                self._authenticator.on_frame(frame)
                return
            if session.has_ended(now_ms):
                raise CloseConnection("the login has expired, and was not renewed")
        super().on_frame(frame)
