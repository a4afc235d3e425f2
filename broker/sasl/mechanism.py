"""What the server side of every mechanism is: a machine that takes tokens and gives tokens."""

from typing import Protocol


class LoginRefused(Exception):
    """The client may not log in.

    `reason` is for the log of the broker, and holds no secret. `shown` is what the client is told;
    None: a text that says nothing about why, as only the log may tell whether a user exists.
    """

    def __init__(self, reason: str, shown: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.shown = shown


class ServerMechanism(Protocol):
    """One login of one client; `step` until `is_complete`."""

    is_complete: bool
    user: str
    """Who the client says it is; who it is once the login is complete."""
    refusal: str
    """Why the client may not log in, once the answer has told it that, and the client has yet to
    answer; or empty."""
    expires_ms: int | None
    """The wall clock at which the client's credential expires; None: it does not."""

    def step(self, token: bytes) -> bytes:
        """Take a token of the client, and return the answer.  Raises: LoginRefused."""
        ...
