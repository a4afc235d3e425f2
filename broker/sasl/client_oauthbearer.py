"""OAUTHBEARER (RFC 7628), for a client: a token, and the answer to an error."""

from collections.abc import Mapping

from .client import ServerRefused
from .oauthbearer import ABORT, ClientFirst


class OAuthBearerClient:
    """One login by OAUTHBEARER."""

    def __init__(self, token: str, extensions: Mapping[str, str] = {}) -> None:
        self._token = token
        self._extensions = extensions
        self._error = ""
        self.is_complete = False

    def first(self) -> bytes:
        """The token."""
        return ClientFirst(self._token, "", self._extensions).encode()

    def step(self, answer: bytes) -> bytes:
        """Take the answer: empty, or an error, after which the server refuses the login itself.

        Raises: ServerRefused.
        """
        if self._error or self.is_complete:
            raise ServerRefused(f"goes on after {self._error or 'the token was accepted'}")
        if answer:
            self._error = f"an error about the token: {answer.decode(errors='replace')[:200]!r}"
            return ABORT
        self.is_complete = True
        return b""
