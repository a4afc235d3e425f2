"""What the client side of every mechanism is: a machine that takes tokens and gives tokens."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import NamedTuple, Protocol


class ServerRefused(Exception):
    """The server must not be spoken with: it refuses, breaks the rules, or is not who it says.

    The text is a part of a sentence whose subject is the server, and holds no secret.
    """


class ClientMechanism(Protocol):
    """One login; `first`, then `step` for each answer until `is_complete`."""

    is_complete: bool

    def first(self) -> bytes:
        """The first token.  Raises: ServerRefused."""
        ...

    def step(self, answer: bytes) -> bytes:
        """Take the server's answer, and return the next token; none is due once it is complete.

        Raises: ServerRefused.
        """
        ...


class Credentials(NamedTuple):
    """As whom this broker logs in to others, and by which mechanism."""

    mechanism: str
    user: str
    begin: Callable[[], Awaitable[ClientMechanism]]
    """Each call begins a login, once it has what that needs.  Raises: ServerRefused."""
    renew_forever: Callable[[], Coroutine[object, object, None]] | None = None
    """Keeps what a login needs at hand.  None: there is nothing to keep."""
