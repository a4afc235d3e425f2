"""What the client side of every mechanism is: a machine that takes tokens and gives tokens."""

from typing import Protocol


class ServerRefused(Exception):
    """The server must not be spoken with: it refuses, breaks the rules, or is not who it says.

    The text is a part of a sentence whose subject is the server, and holds no secret.
    """


class ClientMechanism(Protocol):
    """One login; `first`, then `step` for each answer until `is_complete`."""

    is_complete: bool

    def first(self) -> bytes:
        """The first token."""
        ...

    def step(self, answer: bytes) -> bytes:
        """Take the server's answer, and return the next token; none is due once it is complete.

        Raises: ServerRefused.
        """
        ...
