"""The passwords among the settings of a broker in the store, which are encrypted there."""

import logging
from collections.abc import Callable, Mapping

from .declaration import ConfigError
from .described import Declared
from .of_listener import of_listener
from .password_encoder import BadPassword, PasswordEncoder

logger = logging.getLogger(__name__)

Texts = Mapping[str, str]
RandomBytes = Callable[[int], bytes]


class Passwords:
    """Reads and writes them.  Source: kafka.server.DynamicBrokerConfig."""

    def __init__(
        self, declared: Declared, encoder: PasswordEncoder | None, old: PasswordEncoder | None
    ) -> None:
        """`encoder` has password.encoder.secret, `old` the one before; None: it is not set."""
        self._declared = declared
        self._encoder = encoder
        self._old = old

    def readable(self, stored: Texts) -> dict[str, str]:
        """Stored settings with their passwords readable; those that can't be read are left out."""
        texts = {}
        for name, text in stored.items():
            try:
                texts[name] = self._read(text, self._encoder) if self._is_one(name) else text
            except (BadPassword, ConfigError) as error:
                logger.warning("broker config ignored: %s: %s", name, error)
        return texts

    def stored(self, texts: Texts, before: Texts, random_bytes: RandomBytes) -> dict[str, str]:
        """Settings as they are to be stored; unchanged passwords stay as they were `before`.

        Raises: ConfigError without a secret.
        """
        known, made = self.readable(before), {}
        for name, text in texts.items():
            if not self._is_one(name):
                made[name] = text
            elif known.get(name) == text:
                made[name] = before[name]
            else:
                made[name] = self._written(name, text, random_bytes)
        return made

    def renewed(self, stored: Texts, random_bytes: RandomBytes) -> dict[str, str] | None:
        """Stored settings after a change of the secret: what the old one can read is written anew.

        None: nothing is.  Raises: ConfigError without a new secret.
        """
        made = dict(stored)
        for name, text in stored.items():
            if self._old is not None and self._is_one(name):
                try:
                    made[name] = self._written(name, self._old.decode(text), random_bytes)
                except BadPassword:  # the new secret's already
                    continue
        return None if made == stored else made

    def _is_one(self, name: str) -> bool:
        setting = self._declared.get(name) or of_listener(name)
        return setting is not None and setting.is_sensitive

    def _read(self, text: str, encoder: PasswordEncoder | None) -> str:
        """Raises: BadPassword, ConfigError."""
        if encoder is None:
            raise ConfigError("it is encrypted, and password.encoder.secret is not set")
        try:
            return encoder.decode(text)
        except BadPassword:
            why = "password.encoder.secret is another one, or the text is damaged"
            raise BadPassword(f"it cannot be decrypted: {why}") from None

    def _written(self, name: str, text: str, random_bytes: RandomBytes) -> str:
        """Raises: ConfigError."""
        if self._encoder is None:
            raise ConfigError(f"{name} cannot be kept, as password.encoder.secret is not set")
        return self._encoder.encode(text, random_bytes)
