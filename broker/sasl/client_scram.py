"""SCRAM, for a client: it proves that it has the password, and the server that it knows the user.

A server that cannot prove it may be anybody who listens for passwords that are easy to guess: it is
not spoken with.
"""

import hmac
from collections.abc import Callable
from typing import Final

from . import scram
from .client import ServerRefused
from .scram_messages import (
    BadScram,
    ClientFinal,
    ClientFirst,
    ServerFinal,
    ServerFirst,
    client_final_bare,
)

ITERATIONS_MAX: Final = 100_000
"""More would hold this broker for longer than a tenth of a second, and let a server choose so."""


class Password:
    """A user's password, which is stretched only once for servers with the same credential."""

    def __init__(self, mechanism: scram.Mechanism, user: str, password: str) -> None:
        self.mechanism = mechanism
        self.user = user
        self._password = password
        self._last: tuple[bytes, int] | None = None
        self._salted = b""

    def salted(self, salt: bytes, iterations: int) -> bytes:
        """The salted password; it takes some milliseconds unless it is the last one again."""
        if self._last != (salt, iterations):
            self._salted = scram.salted_password(
                self.mechanism, self._password, salt=salt, iterations=iterations
            )
            self._last = (salt, iterations)
        return self._salted


class ScramClient:
    """One login by SCRAM; `new_nonce` returns the client's half of the nonce."""

    def __init__(self, password: Password, new_nonce: Callable[[], str]) -> None:
        self._password = password
        self._first = ClientFirst(name=password.user, nonce=new_nonce())
        self._signature: bytes | None = None
        """What the server must answer to the proof; None before."""
        self.is_complete = False

    def first(self) -> bytes:
        """The first message: the user, and half of the nonce."""
        return self._first.encode()

    def step(self, answer: bytes) -> bytes:
        """Take the server's challenge, then its signature.  Raises: ServerRefused."""
        try:
            if self._signature is None:
                return self._on_challenge(ServerFirst.parse(answer))
            return self._on_final(ServerFinal.parse(answer), self._signature)
        except BadScram as error:
            raise ServerRefused(f"breaks the rules of SCRAM: {error}") from None

    def _on_challenge(self, challenge: ServerFirst) -> bytes:
        nonce, iterations = challenge.nonce, challenge.iterations
        if not nonce.startswith(self._first.nonce) or nonce == self._first.nonce:
            raise ServerRefused("breaks the rules of SCRAM: its nonce does not continue ours")
        if not scram.ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ServerRefused(
                f"has a password of {iterations} iterations for this user, and from "
                f"{scram.ITERATIONS_MIN} to {ITERATIONS_MAX} are allowed"
            )
        mechanism = self._password.mechanism
        salted = self._password.salted(challenge.salt, iterations)
        bare = client_final_bare(nonce)
        signed = scram.auth_message(self._first.bare, challenge.text, bare)
        key = scram.server_key(mechanism, salted)
        self._signature = scram.server_signature(mechanism, key, signed)
        proof = scram.client_proof(mechanism, salted, signed)
        return ClientFinal(bare, b"n,,", nonce, proof).encode()

    def _on_final(self, final: ServerFinal, signature: bytes) -> bytes:
        if self.is_complete:
            raise ServerRefused("goes on after the last message of SCRAM")
        if final.error:
            raise ServerRefused(f"refuses the proof: {final.error}")
        if not hmac.compare_digest(final.signature, signature):
            raise ServerRefused("cannot prove that it knows this user")
        self.is_complete = True
        return b""
