"""Tokens that an identity provider has signed.

First the signature is checked, then what the token says, by the rules of Kafka and of jose4j, which
Kafka uses. Needs the package PyJWT (extra `oauth`). Source: ValidatorAccessTokenValidator and
ClaimValidationUtils in Kafka, JwtConsumer in jose4j.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from jwt import PyJWK, PyJWS
from jwt.exceptions import PyJWTError

from .token import Claims, InvalidToken, Token, decode_part, seconds_of, user_of

_JWS: Final = PyJWS()


class Rules(NamedTuple):
    """What a token must say."""

    user_claim: str = "sub"
    scope_claim: str = "scope"
    audiences: Sequence[str] | None = None
    """One of these must be among the token's; None: they do not matter."""
    issuer: str | None = None
    skew_s: int = 30


class KeySource(Protocol):
    """Where keys are found."""

    def find(self, algorithm: str, key_id: object) -> PyJWK | None:
        """The key that a token's header names."""
        ...


class SignedTokens:
    """Checks signed tokens."""

    def __init__(self, rules: Rules, keys: KeySource) -> None:
        self._rules = rules
        self._keys = keys

    def validate(self, text: str, now_ms: int) -> Token:
        """What a token says.  Raises: InvalidToken."""
        self._check_signature(text)
        claims = decode_part(text.split(".")[1], "content")
        return check_claims(claims, self._rules, now_ms)

    def _check_signature(self, text: str) -> None:
        parts = text.split(".")
        if len(parts) != 3:
            raise InvalidToken("it does not have three parts")
        header = decode_part(parts[0], "header")
        if "crit" in header:
            raise InvalidToken("its header has extensions that must be understood")
        algorithm = header.get("alg")
        if not isinstance(algorithm, str):
            raise InvalidToken("its header has no alg")
        key = self._keys.find(algorithm, header.get("kid"))
        if key is None:
            raise InvalidToken("there is no key for its header's kid and alg")
        try:
            _JWS.decode_complete(text, key, [algorithm])
        except (PyJWTError, ValueError) as error:
            raise InvalidToken(f"its signature is not right: {type(error).__name__}") from None


def check_claims(claims: Claims, rules: Rules, now_ms: int) -> Token:
    """What a token with a good signature says.  Raises: InvalidToken."""
    _check_issuer_and_audience(claims, rules)
    expires_s = _check_times(claims, rules.skew_s, now_ms)
    _check_scopes(claims.get(rules.scope_claim), rules.scope_claim)
    return Token(user_of(claims, rules.user_claim).strip(), expires_s * 1000)


def _check_times(claims: Claims, skew_s: int, now_ms: int) -> int:
    """When the token expires, in seconds.  As in Kafka, it may be issued in the future."""
    times = {name: seconds_of(claims, name) for name in ("exp", "iat", "nbf")}
    expires_s, issued_s, begins_s = (None if at is None else int(at) for at in times.values())
    now_s = now_ms // 1000
    if expires_s is None or issued_s is None:
        raise InvalidToken("it has no claim exp or iat")
    if expires_s < 0 or issued_s < 0:
        raise InvalidToken("its claim exp or iat is below 0")
    if now_s - skew_s >= expires_s:
        raise InvalidToken("it has expired (exp)")
    if expires_s < issued_s or (begins_s is not None and expires_s < begins_s):
        raise InvalidToken("it expires (exp) before it begins (iat, nbf)")
    if begins_s is not None and now_s + skew_s < begins_s:
        raise InvalidToken("it does not count yet (nbf)")
    return expires_s


def _check_issuer_and_audience(claims: Claims, rules: Rules) -> None:
    if rules.issuer is not None and claims.get("iss") != rules.issuer:
        raise InvalidToken("its issuer (iss) is not the expected one")
    if rules.audiences is None:
        return
    found = claims.get("aud")
    audiences = found if isinstance(found, list) else [found]
    if not any(each in audiences for each in rules.audiences):
        raise InvalidToken("its audience (aud) is not an expected one")


def _check_scopes(found: object, name: str) -> None:
    if not isinstance(found, str | list):
        return  # as in Kafka, a token may have none
    scopes = [found] if isinstance(found, str) else found
    texts = [each.strip() for each in scopes if isinstance(each, str)]
    if len(texts) < len(scopes) or not all(texts) or len(set(texts)) < len(texts):
        raise InvalidToken(f"its claim {name} has an empty scope, or the same one twice")
