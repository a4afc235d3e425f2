"""Kafka's unsecured tokens, which nobody signs: for tests only, as anybody can say anything.

They are what OAUTHBEARER uses unless a listener's settings name another way. The options of the
login module say what a token must have (`unsecuredValidator…`), and what a client's own one says
(`unsecuredLogin…`). Source: OAuthBearerUnsecuredJws, OAuthBearerUnsecuredValidatorCallbackHandler
and OAuthBearerUnsecuredLoginCallbackHandler in Kafka.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from .token import Claims, InvalidToken, Token, decode_part, seconds_of, user_of

_VALIDATOR: Final = "unsecuredValidator"
_LOGIN: Final = "unsecuredLogin"
_VALIDATOR_OPTIONS: Final = ("PrincipalClaimName", "ScopeClaimName", "RequiredScope")
_SKEW: Final = f"{_VALIDATOR}AllowableClockSkewMs"
_LIFETIME: Final = f"{_LOGIN}LifetimeSeconds"
_LOGIN_OPTIONS: Final = ("PrincipalClaimName", "ScopeClaimName")
_OF_CLAIMS: Final = tuple(f"{_LOGIN}{kind}Claim_" for kind in ("String", "Number", "List"))
_EXTENSION: Final = f"{_LOGIN}Extension_"
_KNOWN: Final = {
    *(f"{_VALIDATOR}{name}" for name in _VALIDATOR_OPTIONS),
    *(f"{_LOGIN}{name}" for name in _LOGIN_OPTIONS),
    _SKEW,
    _LIFETIME,
}
_LIFETIME_S: Final = 3600
_HEADER: Final = {"alg": "none"}


class BadOption(ValueError):
    """An option of the login module is wrong; the text is a sentence that begins with its name."""


def check_options(options: Mapping[str, str]) -> None:
    """Refuse options that would have no effect.  Raises: BadOption."""
    for name in options:
        prefix = next((known for known in (*_OF_CLAIMS, _EXTENSION) if name.startswith(known)), "")
        if name not in _KNOWN and (not prefix or name == prefix):
            raise BadOption(f"{name} is not an option of unsecured tokens")


class Validator(NamedTuple):
    """What the server side asks of a token."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Validator":
        """Read the options of a login module.  Raises: BadOption."""
        check_options(options)
        return cls(
            _option(options, f"{_VALIDATOR}PrincipalClaimName") or "sub",
            _option(options, f"{_VALIDATOR}ScopeClaimName") or "scope",
            tuple(_option(options, f"{_VALIDATOR}RequiredScope").split()),
            _whole_number(options, _SKEW, 0),
        )

    def validate(self, text: str, now_ms: int) -> Token:
        """What a token says.  Raises: InvalidToken."""
        claims = _claims_in(text)
        user = user_of(claims, self.user_claim)
        issued_s, expires_s = seconds_of(claims, "iat"), seconds_of(claims, "exp")
        if expires_s is None:
            raise InvalidToken("it has no claim exp")
        if issued_s is not None and 1000 * issued_s > now_ms + self.skew_ms:
            raise InvalidToken("it is from the future (iat)")
        if now_ms - self.skew_ms >= 1000 * expires_s:
            raise InvalidToken("it has expired (exp)")
        if issued_s is not None and expires_s <= issued_s:
            raise InvalidToken("it expires (exp) before it is issued (iat)")
        self._check_scope(claims)
        return Token(user, round(1000 * expires_s))

    def _check_scope(self, claims: Claims) -> None:
        found = claims.get(self.scope_claim, [])
        if not isinstance(found, str | list):
            raise InvalidToken(f"its claim {self.scope_claim} is not a text or a list of texts")
        # As in Kafka, a text is a single scope, even with blanks in it.
        scope = {each.strip() for each in ([found] if isinstance(found, str) else found)}
        if not scope.issuperset(self.required_scope):
            needed = ", ".join(self.required_scope)
            raise InvalidToken("it lacks a scope that is required", scope=f"[{needed}]")


def _claims_in(text: str) -> dict[str, Any]:
    """The claims of a token, with Kafka's types.  Raises: InvalidToken."""
    parts = text.split(".")
    if len(parts) != 3:
        raise InvalidToken("it does not have three parts")
    header, claims = decode_part(parts[0], "header"), decode_part(parts[1], "content")
    if header.get("alg") != "none" or parts[2]:
        raise InvalidToken("it is signed, and the listener is for unsecured tokens")
    return {name: _value(value) for name, value in claims.items()}


def _value(value: object) -> object:
    """What Kafka makes of a claim: a number, a text, or a list of texts."""
    if isinstance(value, list):
        return [_text(each) for each in value]
    return value if _is_number(value) else _text(value)


def _text(value: object) -> str:
    if isinstance(value, dict | list):
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class Login(NamedTuple):
    """A client's own tokens, each of which says the same at another time."""

    user: str
    claims: Claims
    extensions: Mapping[str, str]
    lifetime_s: int

    @classmethod
    def of(cls, options: Mapping[str, str]) -> "Login":
        """Read the options of a login module.  Raises: BadOption."""
        check_options(options)
        claims: dict[str, object] = {}
        readers: Sequence[Callable[[str], object]] = (str, _number, _list)
        for prefix, read in zip(_OF_CLAIMS, readers, strict=True):
            for name, claim, text in _with_prefix(options, prefix):
                if claim in ("iat", "exp"):
                    raise BadOption(f"{name} is not allowed: it is made for each token")
                try:
                    claims[claim] = read(text)
                except ValueError:
                    raise BadOption(f"{name} is not a number") from None
        name = _option(options, f"{_LOGIN}PrincipalClaimName") or "sub"
        user = claims.get(name)
        if not isinstance(user, str) or not user.strip():
            raise BadOption(f"{_LOGIN}StringClaim_{name} must be the name of a user")
        extensions = {each: text for _, each, text in _with_prefix(options, _EXTENSION)}
        return cls(user, claims, extensions, _whole_number(options, _LIFETIME, _LIFETIME_S))

    def token(self, now_ms: int) -> str:
        """A new token."""
        now_s = now_ms / 1000
        claims = {**self.claims, "iat": now_s, "exp": now_s + self.lifetime_s}
        return f"{_encoded(_HEADER)}.{_encoded(claims)}."


def _encoded(part: Mapping[str, object]) -> str:
    data = json.dumps(part, separators=(",", ":")).encode()
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _with_prefix(options: Mapping[str, str], prefix: str) -> list[tuple[str, str, str]]:
    return [
        (name, name.removeprefix(prefix), text)
        for name, text in options.items()
        if name.startswith(prefix)
    ]


def _number(text: str) -> float:
    found = float(text)
    if found - found != 0:  # infinite, or not a number: JSON has neither
        raise ValueError
    return found


def _list(text: str) -> list[str]:
    """The elements after the first character, which separates them."""
    return text[1:].split(text[0]) if len(text) > 1 else []


def _option(options: Mapping[str, str], name: str) -> str:
    return options.get(name, "").strip()


def _whole_number(options: Mapping[str, str], name: str, default: int) -> int:
    text = _option(options, name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadOption(f"{name} must be a whole number, not below 0")
    return int(text)
