"""The users of one SCRAM mechanism, and what a user that does not exist seems to have.

A challenge shows a user's salt and iterations. So that these do not tell who exists, an absent user
seems to have a credential of the same shape as one of the users: each shape is as frequent among
those who do not exist as among those who do. For a name, everything follows from a secret of the
cluster. If users are added or removed, few absent ones turn to another shape, and get another salt
with it: a changed password looks the same.
"""

import hmac
import re
from collections import Counter
from hashlib import shake_256
from math import log
from typing import Final, NamedTuple

from .scram import ITERATIONS_MIN, Credential, Mechanism

NONCE_BITS: Final = 130
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_TEXT: Final = re.compile(rb"[0-9a-z]{20,26}")


def random_text(random_bits: int) -> str:
    """Write a random number of `NONCE_BITS` as Kafka writes nonces and salts."""
    digits = []
    while random_bits:
        random_bits, digit = divmod(random_bits, 36)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


def salt_of(random_bits: int) -> bytes:
    """A salt as Kafka's admin clients make it."""
    return random_text(random_bits).encode()


class Shape(NamedTuple):
    """What a challenge shows, without the salt itself."""

    iterations: int
    salt_size_bytes: int
    """0: the salt is a text as Kafka's admin clients make it. Other clients take random bytes."""

    @classmethod
    def of(cls, credential: Credential) -> "Shape":
        """The shape of a credential."""
        is_text = _TEXT.fullmatch(credential.salt)
        return cls(credential.iterations, 0 if is_text else len(credential.salt))


_USUAL: Final = {Shape(ITERATIONS_MIN, 0): 1}


class KnownUsers:
    """The credentials of one mechanism, by user."""

    def __init__(self) -> None:
        self.credentials: Final[dict[str, Credential]] = {}
        self._shapes: Counter[Shape] = Counter()

    def put(self, user: str, credential: Credential | None) -> bool:
        """Take over a user's credential, or (None) that there is none; whether that is a change."""
        old = self.credentials.pop(user, None)
        if old is not None:
            shape = Shape.of(old)
            self._shapes[shape] -= 1
            if not self._shapes[shape]:
                del self._shapes[shape]
        if credential is not None:
            self.credentials[user] = credential
            self._shapes[Shape.of(credential)] += 1
        return old != credential

    def fake(self, mechanism: Mechanism, secret: bytes, user: str) -> Credential:
        """What a user that does not exist seems to have.

        Nobody can prove to have its password, as nobody knows what has this stored key as its hash.
        """
        name = f"{mechanism.name}\0{user}"
        shape = min(
            (self._shapes or _USUAL).items(), key=lambda item: _distance(secret, name, *item)
        )[0]
        seed = hmac.digest(secret, f"{name}\0{shape}".encode(), "sha512")
        return Credential(
            salt=_salt(seed, shape.salt_size_bytes),
            stored_key=mechanism.hmac(seed, b"stored"),
            server_key=mechanism.hmac(seed, b"server"),
            iterations=shape.iterations,
        )


def _distance(secret: bytes, name: str, shape: Shape, weight: int) -> float:
    """The nearest shape is that of the name (weighted rendezvous hashing)."""
    drawn = hmac.digest(secret, f"{name}\0{shape}".encode(), "sha256")
    return -log((int.from_bytes(drawn[:8]) + 1) / 2**64) / weight


def _salt(seed: bytes, size_bytes: int) -> bytes:
    if size_bytes:
        return shake_256(seed).digest(size_bytes)
    return salt_of(int.from_bytes(seed[:17]) >> (17 * 8 - NONCE_BITS))
