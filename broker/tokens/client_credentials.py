"""How a client asks an identity provider for a token, by its id and a secret, and what it gets.

Source: RFC 6749, 4.4 and 5; KIP-768; HttpAccessTokenRetriever in Kafka.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Self
from urllib.parse import quote_plus

from .http_exchange import Answer, FetchFailed
from .token import InvalidToken, decode_part, seconds_of, user_of
from .unsecured import BadOption

_ID: Final = "clientId"
_SECRET: Final = "clientSecret"
_SCOPE: Final = "scope"
_EXTENSION: Final = "extension_"
_GOOD: Final = (200, 201)
# Also 5xx may pass, but for those that are about the request.
_MAY_PASS: Final = (408, 425, 429)
_WILL_NOT_PASS: Final = (501, 505)
_ERROR: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,100}")
_TEXT: Final = re.compile(r"[\x20-\x7e]{1,300}")


class TokenRefused(FetchFailed):
    """The same request would fail again."""


class OwnToken(NamedTuple):
    """A token that a client shows, as far as the client understands it."""

    text: str
    user: str
    issued_ms: int | None
    expires_ms: int
    """By the wall clock of the identity provider."""

    @classmethod
    def parse(cls, text: str, user_claim: str) -> Self:
        """Read a token without checking its signature: the server does.  Raises: TokenRefused."""
        try:
            claims = decode_part(f"{text}.".split(".")[1], "content")
            issued_s, expires_s = seconds_of(claims, "iat"), seconds_of(claims, "exp")
            user = user_of(claims, user_claim)
        except InvalidToken as error:
            raise TokenRefused(f"gives a token that is not valid: {error.reason}") from None
        if expires_s is None:
            raise TokenRefused("gives a token that does not say when it ends (claim exp)")
        issued_ms = None if issued_s is None else round(1000 * issued_s)
        return cls(text, user, issued_ms, round(1000 * expires_s))


def is_option(name: str) -> bool:
    """Whether a login module may have this option for the request."""
    is_extension = name.startswith(_EXTENSION) and name != _EXTENSION
    return is_extension or name in (_ID, _SECRET, _SCOPE)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Who asks for a token, and for which one."""

    client_id: str
    secret: str = field(repr=False)
    scope: str = ""
    url_encodes: bool = False
    """Whether id and secret are encoded before base64, as the RFC wants, and by default nobody."""

    @classmethod
    def of(cls, options: Mapping[str, str], *, url_encodes: bool = False) -> Self:
        """Read the options of a login module.  Raises: BadOption."""
        client_id, secret, scope = (
            options.get(name, "").strip() for name in (_ID, _SECRET, _SCOPE)
        )
        for name, value in ((_ID, client_id), (_SECRET, secret)):
            if not value:
                raise BadOption(f"{name} must be set: it is needed for the token endpoint")
        return cls(client_id, secret, scope, url_encodes)

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of the request."""
        pair = (self.client_id, self.secret)
        text = ":".join(map(quote_plus, pair) if self.url_encodes else pair)
        return (
            ("Authorization", f"Basic {b64encode(text.encode()).decode()}"),
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Cache-Control", "no-cache"),
        )

    @property
    def body(self) -> bytes:
        """The body of the request, a form."""
        scope = f"&scope={quote_plus(self.scope)}" if self.scope else ""
        return f"grant_type=client_credentials{scope}".encode()

    def token_in(self, answer: Answer) -> str:
        """The token that an answer has.  Raises: FetchFailed, TokenRefused."""
        status = answer.status
        if status not in _GOOD:
            passes = status in _MAY_PASS or (status >= 500 and status not in _WILL_NOT_PASS)
            kind = FetchFailed if passes else TokenRefused
            raise kind(f"answers with status {status}{self._reason_in(answer.body)}")
        token = _object_in(answer.body).get("access_token")
        if not isinstance(token, str) or not token.strip():
            raise TokenRefused("answers without an access_token")
        text = token.strip()
        if not text.isascii() or not text.isprintable():
            raise TokenRefused("gives an access_token that is none")
        return text

    def _reason_in(self, body: bytes) -> str:
        """Why no token is given, by an answer's `error` and `error_description`.

        Nothing is shown that could break a line of the log, or has the secret in it.
        """
        found = _object_in(body)
        error, text = str(found.get("error", "")), str(found.get("error_description", ""))
        shown = [error] if _ERROR.fullmatch(error) else []
        shown += [text] if _TEXT.fullmatch(text) else []
        said = ": ".join(part for part in shown if not self._is_told_by(part))
        return f" ({said})" if said else ""

    def _is_told_by(self, text: str) -> bool:
        header = self.headers[0][1].removeprefix("Basic ")
        return any(part in text for part in (self.secret, quote_plus(self.secret), header))


def extensions_in(options: Mapping[str, str]) -> dict[str, str]:
    """The extensions that go with a token to the server."""
    return {
        name.removeprefix(_EXTENSION): value
        for name, value in options.items()
        if name.startswith(_EXTENSION)
    }


def _object_in(body: bytes) -> dict[str, object]:
    """The JSON object in a body; without one, an empty one."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
