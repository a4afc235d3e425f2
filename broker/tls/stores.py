"""Certificate stores: keys and certificates, from a file or as a setting's own text.

What a store is, its content says, not the setting of its type or the end of its name: keytool
writes PKCS12 into files that are named `.jks`, and whoever changes a store need not change anything
else. PEM and PKCS12 can be read. JKS is refused with the command that converts it.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from shlex import quote
from typing import Final, NamedTuple

from odradek.storage.files import NotRegular, read_regular

from ..settings.declaration import ConfigError
from ..settings.tls import ListenerTls

STORE_BYTES_MAX: Final = 16 << 20
_JAVA: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_DER: Final = b"\x30"
_EDGE: Final = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]+)-----")
_LINE_LENGTH: Final = 64
_FROM_JKS: Final = (
    "keytool -importkeystore -srckeystore {path} -destkeystore {name}.p12 -deststoretype PKCS12"
)


class Block(NamedTuple):
    """One part of a PEM file: what it is, and its lines."""

    label: str
    text: str

    @property
    def is_key(self) -> bool:
        """Whether it is a private key."""
        return self.label.endswith("PRIVATE KEY")

    @property
    def is_encrypted(self) -> bool:
        """Whether it can be read only with a password."""
        return self.label.startswith("ENCRYPTED") or "Proc-Type: 4,ENCRYPTED" in self.text


def blocks_of(text: str) -> list[Block]:
    """The parts of a text in PEM, in order.

    In a setting the lines may be joined by spaces, which Kafka's own reader permits and OpenSSL's
    does not, so the lines are broken anew.
    """
    found: list[Block] = []
    begun: re.Match[str] | None = None
    for edge in _EDGE.finditer(text):
        word, label = edge.groups()
        if word == "BEGIN":
            begun = edge
        elif begun is not None and begun[2] == label:
            lines = _lines_of(text[begun.end() : edge.start()])
            text_of_block = f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
            found.append(Block(label, text_of_block))
            begun = None
    return found


def _lines_of(body: str) -> str:
    if ":" in body:  # the old form of encrypted keys: only its own lines keep the headers apart
        return body.strip()
    joined = "".join(body.split())
    starts = range(0, len(joined), _LINE_LENGTH)
    return "\n".join(joined[start : start + _LINE_LENGTH] for start in starts)


class _Kind(NamedTuple):
    """A kind of store, and the settings that it is set by."""

    name: str
    location: str
    password: str
    inline: str


_KEYSTORE: Final = _Kind(
    "keystore", "ssl.keystore.location", "ssl.keystore.password", "ssl.keystore.key"
)
_TRUSTSTORE: Final = _Kind(
    "truststore",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
)


class _Store(NamedTuple):
    blocks: list[Block]
    shown: str
    """The setting that names it, and its path, for error messages."""
    pem_path: str | None
    """The file from which OpenSSL can read it."""


def load_key(context: ssl.SSLContext, given: ListenerTls) -> bytes:
    """Load the broker's key and certificates; return its own, in DER.  Raises: ConfigError."""
    store = _key_store(given)
    keys = [block for block in store.blocks if block.is_key]
    certificates = [block for block in store.blocks if block.label == "CERTIFICATE"]
    if len(keys) != 1 or not certificates:
        raise ConfigError(
            f"{store.shown} must have one private key and its certificates, and it has {len(keys)} "
            f"keys and {len(certificates)} certificates"
        )
    password = given["ssl.key.password"]
    if keys[0].is_encrypted and not password:
        raise ConfigError(f"the key of {store.shown} is encrypted: set ssl.key.password")
    # A key that has a file is not written to another one.
    text = "".join(block.text for block in (*keys, *certificates))
    with nullcontext(store.pem_path) if store.pem_path else _written(text) as path:
        try:
            # Always with a password: without one, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(path, password=password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(_why_not(error, store.shown, given, keys[0])) from None
    return ssl.PEM_cert_to_DER_cert(certificates[0].text)


def load_trust(context: ssl.SSLContext, given: ListenerTls) -> bool:
    """Load the authorities of clients' certificates; False if none are set.

    Raises: ConfigError.
    """
    store = _store(given, _TRUSTSTORE)
    if store is None:
        return False
    certificates = [block.text for block in store.blocks if block.label == "CERTIFICATE"]
    if not certificates:
        raise ConfigError(f"{store.shown} has no certificates")
    try:
        context.load_verify_locations(cadata="".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{store.shown} has a certificate that cannot be read: {error}") from None
    return True


def _key_store(given: ListenerTls) -> _Store:
    store = _store(given, _KEYSTORE)
    chain_name = given.name_of("ssl.keystore.certificate.chain")
    chain = given["ssl.keystore.certificate.chain"]
    if store is None:
        raise ConfigError(
            f"the listener {given.listener_name} has no certificate: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    if not given["ssl.keystore.key"]:
        if chain:
            raise ConfigError(f"{chain_name} needs ssl.keystore.key, not ssl.keystore.location")
        return store
    if not chain:
        raise ConfigError(f"{store.shown} needs ssl.keystore.certificate.chain too")
    keys = (block for block in store.blocks if block.is_key)
    return store._replace(blocks=[*keys, *_checked_blocks(chain, chain_name)])


def _store(given: ListenerTls, kind: _Kind) -> _Store | None:
    """The store in a file or in a setting; None: neither is set."""
    path, text = given[kind.location], given[kind.inline]
    if path and text:
        raise ConfigError(
            f"only one of {given.name_of(kind.location)} and {given.name_of(kind.inline)} may be "
            "set"
        )
    if text:
        shown = given.name_of(kind.inline)
    elif path:
        shown = f"{given.name_of(kind.location)}={path}"
        data = _read(path, shown)
        if data.startswith(_JAVA):
            command = _FROM_JKS.format(path=quote(path), name=kind.name)
            raise ConfigError(
                f"{shown} is JKS, which cannot be read: convert it with `{command}` and name the "
                "result instead"
            )
        if data.startswith(_DER):
            return _Store(_pkcs12_blocks(data, shown, given, kind), shown, None)
        text = data.decode("latin-1")  # what is outside of the blocks may be anything
    else:
        return None
    blocks = _checked_blocks(text, shown)
    if not blocks:
        raise ConfigError(f"{shown} is not PEM: it has nothing from -----BEGIN to -----END")
    if given[kind.password]:  # who sets one believes that it protects something
        instead = ": set ssl.key.password for its key" if kind is _KEYSTORE else ""
        password_name = given.name_of(kind.password)
        raise ConfigError(f"{password_name} has no meaning, as {shown} is PEM{instead}")
    return _Store(blocks, shown, path)


def _checked_blocks(text: str, shown: str) -> list[Block]:
    blocks = blocks_of(text)
    if not all(block.text.isascii() for block in blocks):  # Python's ssl fails on others
        raise ConfigError(f"{shown} is damaged: from -----BEGIN to -----END, PEM is ASCII")
    return blocks


def _pkcs12_blocks(data: bytes, shown: str, given: ListenerTls, kind: _Kind) -> list[Block]:
    try:
        from .pkcs12 import BadPkcs12, pkcs12_pem  # needs cryptography
    except ImportError:
        command = f"openssl pkcs12 -in {quote(given[kind.location])} -out {kind.name}.pem"
        raise ConfigError(
            f"{shown} is PKCS12, which needs the package cryptography: pip install 'odradek[tls]', "
            f"or convert it with `{command}` and name the result instead"
        ) from None
    password_name, password = given.name_of(kind.password), given[kind.password]
    key_password = given["ssl.key.password"] if kind is _KEYSTORE else None
    if key_password and key_password != password:
        raise ConfigError(
            f"{given.name_of('ssl.key.password')} must be {password_name}, or unset: in PKCS12 one "
            "password protects both"
        )
    try:
        blocks = blocks_of(pkcs12_pem(data, password))
    except BadPkcs12:
        why = "the password is wrong, or the file is damaged" if password else "set it"
        raise ConfigError(f"{shown} cannot be opened with {password_name}: {why}") from None
    if kind is _TRUSTSTORE and any(block.is_key for block in blocks):
        # Java then trusts the key's own certificate, but not those that it comes from.
        raise ConfigError(f"{shown} has a private key: a truststore must have only certificates")
    return blocks


def _read(path: str, shown: str) -> bytes:
    # An admin client may name any path, and whoever opens a pipe waits for somebody to write.
    try:
        data = read_regular(path, STORE_BYTES_MAX)
    except (NotRegular, IsADirectoryError):
        raise ConfigError(f"{shown} cannot be read: it is not a file") from None
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}") from None
    if len(data) > STORE_BYTES_MAX:
        raise ConfigError(f"{shown} is larger than {STORE_BYTES_MAX} bytes")
    return data


def _why_not(error: Exception, name: str, given: ListenerTls, key: Block) -> str:
    reason = getattr(error, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return f"the key of {name} does not belong to the first certificate"
    if key.is_encrypted:
        return f"the key of {name} cannot be opened with {given.name_of('ssl.key.password')}"
    return f"{name} has a key or a certificate that cannot be read: {reason or 'not valid PEM'}"


@contextmanager
def _written(text: str) -> Iterator[str]:
    """The path of a file that only we can read: OpenSSL takes a key from nothing else."""
    descriptor, path = tempfile.mkstemp(prefix="odradek-", suffix=".pem")  # with mode 0600
    try:
        with open(descriptor, "w", encoding="ascii", errors="replace") as file:
            file.write(text)
        yield path
    finally:
        os.unlink(path)
