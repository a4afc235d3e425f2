"""Passwords in `/config/brokers/<id>`, encrypted with `password.encoder.secret` as Kafka does it.

One text has all that is needed to decrypt it but the secret: `salt:…,iterations:4096,…`, so stored
passwords stay readable when the other settings change.

Source: org.apache.kafka.security.EncryptingPasswordEncoder.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .declaration import INT, PASSWORD, STRING, ConfigError, Setting

_SALT_BYTES: Final = 256
_IV_BYTES: Final = {"AES/CBC/PKCS5Padding": 16, "AES/GCM/NoPadding": 12}
_TAG_BITS: Final = 128
_ITERATIONS_MAX: Final = 1_000_000
"""More would hold up the broker for seconds."""
_DIGESTS: Final = {
    f"PBKDF2WithHmacSHA{bits}": f"sha{bits}" for bits in ("1", "224", "256", "384", "512")
}


def _key_length(text: str) -> str | None:
    return None if text in ("128", "192", "256") else "128, 192 or 256"


class PasswordSettings:
    """How passwords are kept that were changed while the broker runs."""

    password_encoder_secret = Setting(
        "password.encoder.secret",
        PASSWORD.or_none,
        None,
        "The secret with which passwords in dynamic configs are encrypted. Needs the extra `tls`. "
        "Unset: passwords cannot be changed while the broker runs.",
    )
    password_encoder_old_secret = Setting(
        "password.encoder.old.secret",
        PASSWORD.or_none,
        None,
        "The former password.encoder.secret. At the start, passwords that it decrypts are "
        "encrypted with the new one.",
    )
    password_encoder_cipher_algorithm = Setting(
        "password.encoder.cipher.algorithm",
        STRING,
        "AES/CBC/PKCS5Padding",
        "The cipher for new passwords.",
        choices=tuple(_IV_BYTES),
    )
    password_encoder_keyfactory_algorithm = Setting(
        "password.encoder.keyfactory.algorithm",
        STRING.or_none,
        None,
        "How the key for new passwords is derived from the secret; unset: PBKDF2WithHmacSHA512.",
        choices=tuple(_DIGESTS),
    )
    password_encoder_key_length = Setting(
        "password.encoder.key.length",
        INT,
        128,
        "Bits of the key for new passwords.",
        check=_key_length,
    )
    password_encoder_iterations = Setting(
        "password.encoder.iterations",
        INT,
        4096,
        "The iterations by which the key for new passwords is derived.",
        at_least=1024,
        at_most=_ITERATIONS_MAX,
    )


class BadPassword(ValueError):
    """The text is no password that this secret has encrypted."""


class PasswordEncoder(NamedTuple):
    """Encrypts passwords, and decrypts them."""

    secret: str
    cipher: str = "AES/CBC/PKCS5Padding"
    key_factory: str | None = None
    key_length: int = 128
    iterations: int = 4096

    def encode(self, password: str, random_bytes: Callable[[int], bytes]) -> str:
        """Raises: ConfigError without the package cryptography."""
        salt, iv = random_bytes(_SALT_BYTES), random_bytes(_IV_BYTES[self.cipher])
        key_factory = self.key_factory or "PBKDF2WithHmacSHA512"
        key = _key(self.secret, key_factory, salt, self.iterations, self.key_length)
        fields = {
            "keyFactoryAlgorithm": key_factory,
            "cipherAlgorithm": self.cipher,
            "keyLength": str(self.key_length),
            "salt": b64encode(salt).decode(),
            "iterations": str(self.iterations),
            "passwordLength": str(_length(password)),
            "initializationVector": b64encode(iv).decode(),
            "encryptedPassword": b64encode(
                _cipher(self.cipher).encrypted(key, iv, password.encode())
            ).decode(),
        }
        if "GCM" in self.cipher:
            fields["authenticationTagLength"] = str(_TAG_BITS)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Raises: BadPassword; ConfigError without the package cryptography."""
        fields = dict(field.strip().partition(":")[::2] for field in text.split(","))
        try:
            cipher = fields["cipherAlgorithm"]
            iv = b64decode(fields["initializationVector"], validate=True)
            iterations, bits = int(fields["iterations"]), int(fields["keyLength"])
            if len(iv) != _IV_BYTES[cipher] or not 1 <= iterations <= _ITERATIONS_MAX:
                raise BadPassword
            if _key_length(str(bits)) is not None or fields.get("authenticationTagLength") not in (
                None,
                str(_TAG_BITS),
            ):
                raise BadPassword
            key_factory = fields.get("keyFactoryAlgorithm") or "PBKDF2WithHmacSHA512"
            salt = b64decode(fields["salt"], validate=True)
            key = _key(self.secret, key_factory, salt, iterations, bits)
            encrypted = b64decode(fields["encryptedPassword"], validate=True)
            password: str = _cipher(cipher).decrypted(key, iv, encrypted).decode()
            if _length(password) != int(fields["passwordLength"]):
                raise BadPassword
        except (KeyError, ValueError):
            raise BadPassword from None
        return password


def _key(secret: str, key_factory: str, salt: bytes, iterations: int, bits: int) -> bytes:
    digest = _DIGESTS[key_factory]
    return hashlib.pbkdf2_hmac(digest, secret.encode(), salt, iterations, bits // 8)


def _length(password: str) -> int:
    """The length as Java counts it, in UTF-16."""
    return len(password.encode("utf-16-le")) // 2


def _cipher(name: str) -> Any:
    try:
        from . import password_ciphers  # needs cryptography
    except ImportError:
        raise ConfigError(
            "passwords in dynamic configs need the package cryptography: pip install 'odradek[tls]'"
        ) from None
    return password_ciphers.Gcm if "GCM" in name else password_ciphers.Cbc
