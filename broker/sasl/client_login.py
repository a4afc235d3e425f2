"""A login as a client, without a connection: which token is due, and what the answers mean.

The caller sends SaslHandshake and checks its answer, begins the mechanism, and then sends each
token in SaslAuthenticate, and takes its answer, until the login is complete.
"""

from collections.abc import Iterable
from typing import Final

from odradek.protocol.errors import error_name
from odradek.protocol.primitives import Buffer

from .client import ClientMechanism, ServerRefused

HANDSHAKE_VERSION: Final = 1  # with 0, the tokens would follow as bare frames


def check_handshake(mechanism: str, error_code: int, offered: Iterable[str]) -> None:
    """Check the answer to SaslHandshake.  Raises: ServerRefused."""
    if error_code:
        names = ", ".join(offered) or "none"
        raise ServerRefused(f"has no login by {mechanism}; it offers {names}")


class ClientLogin:
    """The rounds of SaslAuthenticate, until the mechanism is complete."""

    def __init__(self, mechanism: ClientMechanism, refusal: str = "refuses the login") -> None:
        """`refusal`: what a server is said to do.  Raises: ServerRefused."""
        self._mechanism = mechanism
        self._refusal = refusal
        self.token = mechanism.first()
        """What to send next; nothing once it is complete."""

    @property
    def is_complete(self) -> bool:
        """Whether both sides have accepted each other."""
        return self._mechanism.is_complete

    def take(self, error_code: int, error_message: str | None, auth_bytes: Buffer) -> None:
        """Take the answer to the token.  Raises: ServerRefused."""
        if error_code:
            reason = error_message or error_name(error_code)
            raise ServerRefused(f"{self._refusal}: {reason}")
        self.token = self._mechanism.step(bytes(auth_bytes))
