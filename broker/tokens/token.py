"""A token that lets somebody in, and what is said of one that does not."""

import json
import re
from base64 import b64decode
from binascii import Error as BadBase64
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

Claims = Mapping[str, Any]
"""What a token says, by the claims' names."""


_SECONDS_MAX: Final = 1 << 53
_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
"""JSON can have one half of a character that UTF-16 writes as two: no answer could have it."""


class Token(NamedTuple):
    """What a valid token says."""

    user: str
    expires_ms: int
    """By the wall clock."""


Validate = Callable[[str, int], Token]
"""(a token's text, the wall clock in ms) -> what it says.  Raises: InvalidToken."""


class InvalidToken(Exception):
    """The token lets nobody in.

    `reason` is for the log of the broker, and shows no part of the token but names. `scope` is set
    if a scope is missing: the client is told which ones are needed.
    """

    def __init__(self, reason: str, *, scope: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.scope = scope


def decode_part(part: str, what: str) -> dict[str, Any]:
    """The JSON object in one part of a token, in base64 with or without padding.

    Raises: InvalidToken.
    """
    try:
        data = b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        found = json.loads(data)
    except (BadBase64, ValueError, RecursionError):  # nested too deeply
        raise InvalidToken(f"its {what} is not JSON in base64") from None
    if not isinstance(found, dict):
        raise InvalidToken(f"its {what} is not a JSON object")
    return found


def user_of(claims: Claims, name: str) -> str:
    """The claim that names the user.  Raises: InvalidToken."""
    user = claims.get(name)
    if not isinstance(user, str) or not user.strip() or _HALF_CHARACTER.search(user):
        raise InvalidToken(f"its claim {name} is not the name of a user")
    return user


def seconds_of(claims: Claims, name: str) -> float | None:
    """A claim that is a time, in seconds since 1970; None: it is missing.  Raises: InvalidToken."""
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= _SECONDS_MAX:  # JSON in Python has NaN, too
        raise InvalidToken(f"its claim {name} is not a time")
    return float(value)
