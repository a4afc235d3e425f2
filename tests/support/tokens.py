"""Signed and unsigned tokens, the keys that sign them, and the set of the public ones."""

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from jwt import PyJWS
from jwt.algorithms import get_default_algorithms

NONE: Final = "none"
_RSA: Final = "RS256"


@cache
def key(name: str) -> Any:
    """The private key of this name; its first letters are the algorithm: `RS256`, `ES256-other`."""
    if name.startswith(("RS", "PS")):
        bits = 1024 if name.endswith("short") else 2048
        return rsa.generate_private_key(public_exponent=65537, key_size=bits)
    if name.startswith("ES"):
        return ec.generate_private_key(ec.SECP256R1())
    return ed25519.Ed25519PrivateKey.generate()


def algorithm(name: str) -> str:
    """What a key signs by."""
    return name.partition("-")[0]


def jwk(name: str, **more: Any) -> dict[str, Any]:
    """The public part of a key."""
    public = key(name).public_key()
    kind = get_default_algorithms()[algorithm(name)]
    return {**json.loads(kind.to_jwk(public)), "kid": name, **more}


def jwks(*keys: Mapping[str, Any]) -> bytes:
    """A set of public keys."""
    return json.dumps({"keys": keys}).encode()


def signed(claims: object, name: str = "ES256", **header: Any) -> str:
    """A token that a key signs; header fields of None are left out."""
    found = {"kid": name, **header}
    found = {field: value for field, value in found.items() if value is not None}
    data = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    return PyJWS().encode(data, key(name), algorithm(name), found)


def part(content: object) -> str:
    """One part of a token."""
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return urlsafe_b64encode(data).decode().rstrip("=")


def unsigned(claims: object, header: object = {"alg": NONE}, signature: str = "") -> str:
    """A token that nobody has signed."""
    return f"{part(header)}.{part(claims)}.{signature}"


def confused(claims: object, name: str = _RSA) -> str:
    """A token signed by HS256, with the text of a public key as the shared secret."""
    pem = key(name).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    content = f"{part({'alg': 'HS256', 'kid': name})}.{part(claims)}"
    return f"{content}.{part(hmac.digest(pem, content.encode(), 'sha256'))}"
