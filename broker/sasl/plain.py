"""PLAIN (RFC 4616), for a server: a user and a password in one token.

The users are the options `user_<name>` of the login module. Texts that the client is shown are
Kafka's (PlainSaslServer), as users search for them.
"""

import hmac
from collections.abc import Mapping
from hashlib import sha256
from typing import Final

from .mechanism import LoginRefused

NAME: Final = "PLAIN"
_USER_PREFIX: Final = "user_"
_NUL: Final = "\0"
_NOBODY_S: Final = bytes(32)


def users_in(options: Mapping[str, str]) -> dict[str, bytes]:
    """The hash of the password of each user that a login module names."""
    return {
        name.removeprefix(_USER_PREFIX): hash_of(password)
        for name, password in options.items()
        if name.startswith(_USER_PREFIX)
    }


def hash_of(password: str) -> bytes:
    """Hash a password, so that comparing takes the same time for passwords of all lengths."""
    return sha256(password.encode()).digest()


class PlainServer:
    """One login by PLAIN."""

    refusal = ""  # told by an exception
    expires_ms: int | None = None

    def __init__(self, users: Mapping[str, bytes]) -> None:
        """`users` are those of `users_in`."""
        self._users = users
        self.is_complete = False
        self.user = ""

    def step(self, token: bytes) -> bytes:
        """Take the only token.  Raises: LoginRefused."""
        # Kafka's texts may not hold bytes that are no UTF-8 either; they match nobody's password.
        fields = token.decode(errors="replace").split(_NUL, 4)[:4]
        if len(fields) != 3:
            raise _refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        authzid, self.user, password = fields
        if not self.user:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        known = self._users.get(self.user)
        # An unknown user costs a comparison, too.
        matches = hmac.compare_digest(hash_of(password), _NOBODY_S if known is None else known)
        if known is None or not matches:
            reason = "unknown user" if known is None else "wrong password"
            raise LoginRefused(reason, "Authentication failed: Invalid username or password")
        if authzid not in ("", self.user):
            raise _refused(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        self.is_complete = True
        return b""


def _refused(text: str) -> LoginRefused:
    return LoginRefused(text, text)
