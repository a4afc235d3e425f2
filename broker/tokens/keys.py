"""The public keys of an identity provider, with which it is checked who signed a token.

They come as a JSON Web Key Set (RFC 7517). Each key is bound to the algorithms of its kind, so that
a token cannot choose one that makes something else of the key. Keys that are shared secrets, for
encryption, or too short are left out. Needs the package PyJWT (extra `oauth`).
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from jwt import PyJWK
from jwt.exceptions import PyJWTError

logger = logging.getLogger(__name__)

RSA_BITS_MIN: Final = 2048
KEYS_MAX: Final = 1000
_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
_ALGORITHMS: Final[Mapping[tuple[str, str | None], Sequence[str]]] = {
    ("RSA", None): _RSA,
    ("EC", "P-256"): ("ES256",),
    ("EC", "P-384"): ("ES384",),
    ("EC", "P-521"): ("ES512",),
    ("OKP", "Ed25519"): ("EdDSA",),
}
_PUBLIC: Final = ("kty", "n", "e", "crv", "x", "y")


class BadKeys(ValueError):
    """The text is not a set of keys; the message is part of a sentence."""


class Key(NamedTuple):
    """One key, for each algorithm that it may be used with."""

    key_id: str | None
    by_algorithm: Mapping[str, PyJWK]


Keys = Sequence[Key]


def parse_keys(data: bytes) -> Keys:
    """Read a JWKS; what cannot be used is left out.  Raises: BadKeys."""
    try:
        found = json.loads(data)
        entries = found["keys"]
    except (ValueError, RecursionError, KeyError, TypeError):
        entries = None
    if not isinstance(entries, list) or len(entries) > KEYS_MAX:
        raise BadKeys("is not a JSON Web Key Set")
    keys = [key for entry in entries if (key := _usable(entry)) is not None]
    if not keys:
        raise BadKeys("has no key that tokens can be checked with")
    return keys


def find_key(keys: Keys, algorithm: str, key_id: object) -> PyJWK | None:
    """The key that a token's header names; if it names none, the first one for the algorithm."""
    for key in keys:
        if key_id in (None, key.key_id) and algorithm in key.by_algorithm:
            return key.by_algorithm[algorithm]
    return None


def _usable(entry: object) -> Key | None:
    if not isinstance(entry, dict):
        return None
    key_id = entry.get("kid")
    try:
        reason = _why_not(entry)
        by_algorithm = {} if reason else _bound(entry)
    except (PyJWTError, ValueError, TypeError, AttributeError) as error:
        reason, by_algorithm = str(error) or type(error).__name__, {}
    if not by_algorithm:
        logger.info("key left out kid=%.100r reason=%.200s", key_id, reason or "its alg")
        return None
    return Key(key_id if isinstance(key_id, str) else None, by_algorithm)


def _why_not(entry: Mapping[str, Any]) -> str:
    if entry.get("use", "sig") != "sig":
        return "it is not for signatures"
    if "verify" not in entry.get("key_ops", ["verify"]):
        return "it is not for checking signatures"
    if _kind(entry) not in _ALGORITHMS:
        return "its kind is not known, or a secret"
    return ""


def _kind(entry: Mapping[str, Any]) -> tuple[Any, Any]:
    kind = entry.get("kty")
    return kind, None if kind == "RSA" else entry.get("crv")


def _bound(entry: Mapping[str, Any]) -> dict[str, PyJWK]:
    """The key, bound to its algorithms.  Raises: what `_usable` catches."""
    public = {name: entry[name] for name in _PUBLIC if name in entry}
    only = entry.get("alg")
    names = [name for name in _ALGORITHMS[_kind(entry)] if only in (None, name)]
    found = {name: PyJWK(public, name) for name in names}
    for key in found.values():
        if getattr(key.key, "key_size", RSA_BITS_MIN) < RSA_BITS_MIN and key.key_type == "RSA":
            raise ValueError(f"it has fewer than {RSA_BITS_MIN} bits")
    return found
