"""Certificate stores: keys and certificates as PEM, from a file or as a setting's own text.

What a store is, its content says, not the setting of its type or the end of its name: whoever
changes a store from JKS to PEM need not change anything else. JKS and PKCS12 are refused with the
command that converts them.
"""

import os
import re
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from textwrap import wrap
from typing import Final, NamedTuple

from ..settings.declaration import ConfigError
from ..settings.tls import ListenerTls

STORE_BYTES_MAX: Final = 16 << 20
_JAVA: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_DER: Final = b"\x30"
_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_CONVERTED_KEYS: Final = {
    "JKS": "keytool -importkeystore -srckeystore {path} -destkeystore keystore.p12 "
    "-deststoretype PKCS12 && openssl pkcs12 -in keystore.p12 -out keystore.pem",
    "PKCS12": "openssl pkcs12 -in {path} -out keystore.pem",
}
_CONVERTED_TRUST: Final = "keytool -list -rfc -keystore {path} > truststore.pem"


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
    found = []
    for label, body in _BLOCK.findall(text):
        # The old form of encrypted keys has headers, which only their own lines keep apart.
        lines = body.strip() if ":" in body else "\n".join(wrap("".join(body.split()), 64))
        found.append(Block(label, f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"))
    return found


def load_key(context: ssl.SSLContext, given: ListenerTls) -> None:
    """Load the broker's key and certificates.  Raises: ConfigError."""
    blocks, name = _key_blocks(given)
    keys = [block for block in blocks if block.is_key]
    certificates = [block for block in blocks if block.label == "CERTIFICATE"]
    if len(keys) != 1 or not certificates:
        raise ConfigError(
            f"{name} must have one private key and its certificates, and it has {len(keys)} keys "
            f"and {len(certificates)} certificates"
        )
    password = given["ssl.key.password"]
    if keys[0].is_encrypted and not password:
        raise ConfigError(f"the key of {name} is encrypted: set ssl.key.password")
    # A key that has a file is not written to another one.
    file = given["ssl.keystore.location"]
    text = "".join(block.text for block in (*keys, *certificates))
    with nullcontext(file) if file else _written(text) as path:
        try:
            # Always with a password: without one, OpenSSL would ask for it on the terminal.
            context.load_cert_chain(path, password=password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(_why_not(error, name, given, keys[0])) from None


def load_trust(context: ssl.SSLContext, given: ListenerTls) -> bool:
    """Load the authorities of clients' certificates; False if none are set.

    Raises: ConfigError.
    """
    found = _blocks(given, "ssl.truststore.location", "ssl.truststore.certificates")
    if found is None:
        return False
    blocks, name = found
    _refuse_password(given, "ssl.truststore.password", name, "")
    certificates = [block.text for block in blocks if block.label == "CERTIFICATE"]
    if not certificates:
        raise ConfigError(f"{name} has no certificates")
    try:
        context.load_verify_locations(cadata="".join(certificates))
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{name} has a certificate that cannot be read: {error}") from None
    return True


def _key_blocks(given: ListenerTls) -> tuple[list[Block], str]:
    found = _blocks(given, "ssl.keystore.location", "ssl.keystore.key")
    chain_name = given.name_of("ssl.keystore.certificate.chain")
    chain = given["ssl.keystore.certificate.chain"]
    if found is None:
        raise ConfigError(
            f"the listener {given.listener_name} has no certificate: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain"
        )
    blocks, name = found
    _refuse_password(given, "ssl.keystore.password", name, ": set ssl.key.password for its key")
    if not given["ssl.keystore.key"]:
        if chain:
            raise ConfigError(f"{chain_name} needs ssl.keystore.key, not ssl.keystore.location")
        return blocks, name
    if not chain:
        raise ConfigError(f"{name} needs ssl.keystore.certificate.chain too")
    return [*(block for block in blocks if block.is_key), *blocks_of(chain)], name


def _blocks(given: ListenerTls, location: str, inline: str) -> tuple[list[Block], str] | None:
    """The store in a file or in a setting, and the name of that setting; None: neither is set."""
    path, text = given[location], given[inline]
    if path and text:
        raise ConfigError(
            f"only one of {given.name_of(location)} and {given.name_of(inline)} may be set"
        )
    if text:
        blocks, shown = blocks_of(text), given.name_of(inline)
    elif path:
        shown = f"{given.name_of(location)}={path}"
        blocks = blocks_of(_read(path, shown, is_trust="truststore" in location))
    else:
        return None
    if not blocks:
        raise ConfigError(f"{shown} is not PEM: nothing in it begins with -----BEGIN")
    return blocks, shown


def _read(path: str, shown: str, *, is_trust: bool) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read(STORE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"{shown} cannot be read: {error.strerror}") from None
    if len(data) > STORE_BYTES_MAX:
        raise ConfigError(f"{shown} is larger than {STORE_BYTES_MAX} bytes")
    kind = "JKS" if data.startswith(_JAVA) else "PKCS12" if data.startswith(_DER) else None
    if kind is not None:
        command = (_CONVERTED_TRUST if is_trust else _CONVERTED_KEYS[kind]).format(path=path)
        raise ConfigError(
            f"{shown} is {kind}, and only PEM is built: convert it with `{command}` and name the "
            "result instead"
        )
    return data.decode("latin-1")  # what is outside of the blocks may be anything


def _refuse_password(given: ListenerTls, name: str, store: str, instead: str) -> None:
    """PEM has no password but that of its key; who sets one believes that it protects something."""
    if given[name]:
        raise ConfigError(f"{given.name_of(name)} has no meaning, as {store} is PEM{instead}")


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
