"""The conversation by which a client logs in on a listener with SASL, without any I/O.

In this order: ApiVersions, which a client may leave out; SaslHandshake, which chooses a mechanism;
the mechanism's tokens, each in SaslAuthenticate, or as a bare frame if SaslHandshake had version 0.
Anything else ends the login. While a login lasts only for some time, the client may log in again on
the same connection, beginning with SaslHandshake: as the same user, by the same mechanism.

Texts that the client is shown are Kafka's (SaslServerAuthenticator), as users search for them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import (
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from odradek.protocol.messages.k36_sasl_authenticate import SaslAuthenticateResponse
from odradek.protocol.schema import Message

from .mechanism import LoginRefused, ServerMechanism

if TYPE_CHECKING:
    from ..tokens.refresh import RefreshedKeys

SHOWN_LENGTH_MAX: Final = 1000
"""Of a text that a client is shown: it may have a name that the client has chosen."""
AGAIN_AFTER_MS_MIN: Final = 1000
"""A client that logs in again sooner than this after the last time is refused."""


@dataclass(frozen=True, slots=True)
class Offer:
    """How clients may log in on a listener."""

    mechanisms: Mapping[str, Callable[[], ServerMechanism]]
    """By name, in the order in which clients are told of them; each call begins a login."""
    reauth_ms: Mapping[str, int]
    """By mechanism, how long a login lasts; 0: for ever."""
    receive_bytes_max: int
    """The largest frame of a client that has not logged in."""
    keys: "RefreshedKeys | None" = None
    """What tokens are checked with: read before the first login, and refreshed from then on."""


class Session(NamedTuple):
    """A login that has succeeded."""

    mechanism: str
    user: str
    began_ms: int | None
    """When the login began, by the monotonic clock; None: it was the connection's first one."""
    ends_ms: int | None
    """When the client must have logged in again, by the monotonic clock; None: never."""

    def may_renew(self, now_ms: int) -> bool:
        """Whether the client may begin to log in again."""
        is_soon = self.began_ms is not None and now_ms - self.began_ms < AGAIN_AFTER_MS_MIN
        return self.ends_ms is not None and not is_soon

    def has_ended(self, now_ms: int) -> bool:
        """Whether the client may do nothing any more, except for logging in again."""
        return self.ends_ms is not None and now_ms > self.ends_ms


class LoginFailed(Exception):
    """The login has ended: after a delay, `answer` is sent, if there is one, and the client loses
    its connection.
    """

    def __init__(self, reason: str, answer: Message | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer


class Due(Enum):
    """What a client may send now."""

    VERSIONS_OR_HANDSHAKE = auto()
    HANDSHAKE = auto()
    TOKEN = auto()
    """In SaslAuthenticate."""
    BARE_TOKEN = auto()
    """As a frame without a header."""
    NOTHING = auto()


class Login:
    """One login, the first one of a connection or, after the session `before`, another one."""

    def __init__(
        self, offer: Offer, before: Session | None = None, *, began_ms: int | None = None
    ) -> None:
        """`began_ms`: now, if it is not the connection's first login."""
        self._offer = offer
        self._before = before
        self._began_ms = began_ms
        self._machine: ServerMechanism | None = None
        self._refusal = ""
        self.mechanism = ""
        """The mechanism that the client has chosen, or wanted."""
        self.session: Session | None = None
        """Set once the client has logged in."""
        self.due = Due.VERSIONS_OR_HANDSHAKE if before is None else Due.HANDSHAKE

    @property
    def user(self) -> str:
        """Who the client says it is, as far as it has said so."""
        return "" if self._machine is None else self._machine.user

    @property
    def refusal(self) -> str:
        """Why the client may not log in, if it knows that and the login has not ended; or empty."""
        is_open = self.due in (Due.TOKEN, Due.BARE_TOKEN)
        return self._machine.refusal if is_open and self._machine is not None else ""

    def on_versions_shown(self) -> None:
        """Take note that ApiVersions has been answered without an error."""
        assert self.due is Due.VERSIONS_OR_HANDSHAKE
        self.due = Due.HANDSHAKE

    def on_handshake(self, request: SaslHandshakeRequest, version: int) -> SaslHandshakeResponse:
        """Choose the mechanism.  Raises: LoginFailed."""
        assert self.due in (Due.VERSIONS_OR_HANDSHAKE, Due.HANDSHAKE)
        self.mechanism = request.mechanism
        answer = SaslHandshakeResponse(mechanisms=list(self._offer.mechanisms))
        begin = self._offer.mechanisms.get(request.mechanism)
        if begin is None:
            self.due = Due.NOTHING
            answer.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            reason = "the listener does not offer this mechanism"
            # As in Kafka, a client that had logged in only sees that the connection is closed.
            raise LoginFailed(reason, answer if self._before is None else None)
        if self._before is not None and request.mechanism != self._before.mechanism:
            # As in Kafka, the client learns of it only when its token is refused.
            self._refusal = f"the client had logged in by {self._before.mechanism}"
        self._machine = begin()
        self.due = Due.BARE_TOKEN if version == 0 else Due.TOKEN
        return answer

    def on_token(self, token: bytes, *, now_ms: int, wall_ms: int) -> SaslAuthenticateResponse:
        """Take a token; the answer's bytes alone are sent to a client of bare tokens.

        Raises: LoginFailed.
        """
        assert self._machine is not None and self.due in (Due.TOKEN, Due.BARE_TOKEN)
        if self._refusal:
            self.due = Due.NOTHING
            raise LoginFailed(self._refusal)
        try:
            answer = SaslAuthenticateResponse(auth_bytes=self._machine.step(token))
            if self._machine.is_complete:
                self._check_user(self._machine.user)
        except LoginRefused as refused:
            raise self._failed(refused) from None
        if self._machine.is_complete:
            self.due = Due.NOTHING
            answer.session_lifetime_ms = self._complete(self._machine, now_ms, wall_ms)
        return answer

    def _check_user(self, user: str) -> None:
        before = self._before
        if before is not None and user != before.user:
            text = (
                "Cannot change principals during re-authentication from "
                f"User.{before.user}: User.{user}"
            )
            raise LoginRefused(f"the client had logged in as {before.user[:200]!r}", text)

    def _failed(self, refused: LoginRefused) -> LoginFailed:
        is_bare, self.due = self.due is Due.BARE_TOKEN, Due.NOTHING
        if is_bare:  # such a client only sees that the connection is closed
            return LoginFailed(refused.reason)
        again = "authentication" if self._before is None else "re-authentication"
        shown = refused.shown or (
            f"Authentication failed during {again} due to invalid credentials with SASL mechanism "
            f"{self.mechanism}"
        )
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        answer = SaslAuthenticateResponse(error_code=code, error_message=shown[:SHOWN_LENGTH_MAX])
        return LoginFailed(refused.reason, answer)

    def _complete(self, machine: ServerMechanism, now_ms: int, wall_ms: int) -> int:
        """Begin the session; return how long it lasts in ms, 0 for ever."""
        lasts_ms = self._offer.reauth_ms.get(self.mechanism, 0)
        limits = [lasts_ms] if lasts_ms > 0 else []
        if machine.expires_ms is not None:
            limits.append(max(machine.expires_ms - wall_ms, 0))
        ends_ms = now_ms + min(limits) if limits else None
        self.session = Session(self.mechanism, machine.user, self._began_ms, ends_ms)
        return min(limits, default=0)
