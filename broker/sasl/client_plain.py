"""PLAIN (RFC 4616), for a client: a user and a password in one token."""

from .client import ServerRefused


class PlainClient:
    """One login by PLAIN."""

    def __init__(self, user: str, password: str) -> None:
        self._user = user
        self._password = password
        self.is_complete = False

    def first(self) -> bytes:
        """The only token.  There is no authorization id: the user acts for itself."""
        return f"\0{self._user}\0{self._password}".encode()

    def step(self, answer: bytes) -> bytes:
        """Take the answer, which is empty.  Raises: ServerRefused."""
        if answer or self.is_complete:
            raise ServerRefused("goes on after the only token of PLAIN")
        self.is_complete = True
        return b""
