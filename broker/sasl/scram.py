"""The arithmetic of SCRAM (RFC 5802, RFC 7677), for both sides of a connection.

A server stores a salt, a count of iterations and two keys, never the password. The client proves
that it can compute `client_key`, whose hash the server knows; the server proves in return that it
knows `server_key`. As in Kafka, passwords are taken as their UTF-8 bytes, without SASLprep.
"""

import hmac
from dataclasses import dataclass, field
from hashlib import new, pbkdf2_hmac
from typing import Final, NamedTuple


class Mechanism(NamedTuple):
    """One member of the SCRAM family; `number` is its code in the APIs of users."""

    name: str
    number: int
    hash_name: str  # hashlib's
    size_bytes: int  # of a hash, hence of every key, proof and signature

    def digest(self, data: bytes) -> bytes:
        """H of RFC 5802."""
        return new(self.hash_name, data).digest()

    def hmac(self, key: bytes, data: bytes) -> bytes:
        """HMAC of RFC 5802."""
        return hmac.digest(key, data, self.hash_name)


SHA_256: Final = Mechanism("SCRAM-SHA-256", 1, "sha256", 32)
SHA_512: Final = Mechanism("SCRAM-SHA-512", 2, "sha512", 64)
MECHANISMS: Final = {mechanism.name: mechanism for mechanism in (SHA_256, SHA_512)}

ITERATIONS_MIN: Final = 4096
"""Fewer are refused for both mechanisms, in requests and in logins (Kafka's ScramMechanism)."""
ITERATIONS_MAX: Final = 16384
"""More are refused when a user is altered."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a server knows of a user for one mechanism; no part of it is ever printed."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int


def salted_password(mechanism: Mechanism, password: str, *, salt: bytes, iterations: int) -> bytes:
    """Stretch a password: the only slow step, several milliseconds. Source: Hi() of RFC 5802."""
    return pbkdf2_hmac(mechanism.hash_name, password.encode(), salt, iterations)


def client_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """Return the key that only someone with the (salted) password can compute."""
    return mechanism.hmac(salted, b"Client Key")


def server_key(mechanism: Mechanism, salted: bytes) -> bytes:
    """Return the key by which a server signs."""
    return mechanism.hmac(salted, b"Server Key")


def credential(mechanism: Mechanism, salted: bytes, *, salt: bytes, iterations: int) -> Credential:
    """Return what a server stores of a salted password."""
    return Credential(
        salt=salt,
        stored_key=mechanism.digest(client_key(mechanism, salted)),
        server_key=server_key(mechanism, salted),
        iterations=iterations,
    )


def auth_message(client_first_bare: str, server_first: str, client_final_bare: str) -> bytes:
    """Return what both sides sign; `client_final_bare` is the final message without its proof."""
    return f"{client_first_bare},{server_first},{client_final_bare}".encode()


def client_proof(mechanism: Mechanism, salted: bytes, signed: bytes) -> bytes:
    """Return the client's proof over `signed`, an `auth_message`."""
    key = client_key(mechanism, salted)
    return _xor(key, mechanism.hmac(mechanism.digest(key), signed))


def proves(mechanism: Mechanism, known: Credential, signed: bytes, proof: bytes) -> bool:
    """Tell whether a client's proof comes from someone who has the password.

    The comparison takes the same time wherever the keys differ.
    """
    if len(proof) != mechanism.size_bytes:
        return False
    key = _xor(proof, mechanism.hmac(known.stored_key, signed))
    return hmac.compare_digest(mechanism.digest(key), known.stored_key)


def server_signature(mechanism: Mechanism, key: bytes, signed: bytes) -> bytes:
    """Return the server's answer to a good proof; `key` is its `server_key`.

    A client compares it by `hmac.compare_digest`.
    """
    return mechanism.hmac(key, signed)


def _xor(one: bytes, other: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
