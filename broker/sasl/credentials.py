"""SCRAM users as Kafka stores them: an entry for each mechanism in the config of a user.

The value of such an entry is `salt=…,stored_key=…,server_key=…,iterations=…`, in base64. Quotas of
the same user are entries of the same config.
"""

import logging
from base64 import b64decode, b64encode
from binascii import Error as BadBase64
from collections.abc import Collection, Mapping
from typing import Final

from .known_users import KnownUsers
from .scram import MECHANISMS, Credential

logger = logging.getLogger(__name__)

_KEYS: Final = ("salt", "stored_key", "server_key", "iterations")


class BadCredential(ValueError):
    """A stored credential that can't be used; the text shows no part of it."""


def encode_credential(known: Credential) -> str:
    """The text that is stored."""
    values = (known.salt, known.stored_key, known.server_key)
    texts = [b64encode(value).decode() for value in values]
    return ",".join(
        f"{key}={text}" for key, text in zip(_KEYS, (*texts, known.iterations), strict=True)
    )


def decode_credential(text: str, size_bytes: int) -> Credential:
    """Read a stored text, with keys of `size_bytes`.  Raises: BadCredential."""
    parts = (part.partition("=") for part in text.split(","))
    found = {key: value for key, _, value in parts}
    if found.keys() != set(_KEYS):
        raise BadCredential(f"it must have exactly {', '.join(_KEYS)}")
    try:
        salt, stored_key, server_key = (b64decode(found[key], validate=True) for key in _KEYS[:3])
        iterations = int(found["iterations"])
    except (BadBase64, ValueError):
        raise BadCredential("it is not base64, or its iterations are no number") from None
    if len(stored_key) != size_bytes or len(server_key) != size_bytes or iterations < 1:
        raise BadCredential("its keys or iterations are not those of this mechanism")
    return Credential(salt, stored_key, server_key, iterations)


def credentials_in(config: Mapping[str, str], user: str) -> dict[str, Credential]:
    """The credentials in a user's config, by mechanism; unusable ones are logged and left out."""
    found = {}
    for name, mechanism in MECHANISMS.items():
        if name not in config:
            continue
        try:
            found[name] = decode_credential(config[name], mechanism.size_bytes)
        except BadCredential as error:
            logger.error("credential ignored user=%.200r mechanism=%s reason=%s", user, name, error)
    return found


class ScramUsers:
    """The credentials of all users, as this broker knows them."""

    def __init__(self) -> None:
        self.by_mechanism: Final = {name: KnownUsers() for name in MECHANISMS}

    def apply(self, user: str, config: Mapping[str, str]) -> bool:
        """Take over a user's config; return whether credentials have changed."""
        found = credentials_in(config, user)
        changed = False
        for name, users in self.by_mechanism.items():
            changed = users.put(user, found.get(name)) or changed
        return changed

    def keep_only(self, users: Collection[str | None]) -> None:
        """Forget all other users."""
        for known in self.by_mechanism.values():
            for user in known.credentials.keys() - set(users):
                known.put(user, None)
