"""How a client speaks TLS: Java's stores under librdkafka's names, and Python's context of both.

What a store is, its content says: PEM, PKCS12 or Java's own JKS.
"""

import ssl
import tempfile
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from odradek.broker.tls.stores import blocks_of

from .errors import CommandError

# What `tls_context` turns into one object for kafka-python.
TLS_PROPERTIES: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.crl.location",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "enable.ssl.certificate.verification",
    }
)
_OF_JAVA_STORES: Final = {
    ("truststore", "location"): ("ssl.ca.location",),
    ("truststore", "certificates"): ("ssl.ca.pem",),
    ("keystore", "location"): ("ssl.certificate.location", "ssl.key.location"),
    ("keystore", "certificate.chain"): ("ssl.certificate.pem",),
    ("keystore", "key"): ("ssl.key.pem",),
}
_INLINE: Final = ("ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem")
_JAVA_MAGIC: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")  # JKS, JCEKS
_CONVERT: Final = (
    "keytool -importkeystore -srckeystore {path} -destkeystore {store}.p12 -deststoretype PKCS12"
)


def without_java_stores(properties: dict[str, str]) -> dict[str, str]:
    """Java's stores under librdkafka's names.  A PKCS12 key store stays: librdkafka reads it.

    Raises: ValueError with a sentence.
    """
    for store in ("truststore", "keystore"):
        properties.pop(f"ssl.{store}.type", None)
        if (path := properties.get(f"ssl.{store}.location")) is not None:
            kind = _kind_of(path, f"ssl.{store}.location")
            if kind == "JKS":
                convert = _CONVERT.format(path=path, store=store)
                raise ValueError(
                    f"ssl.{store}.location={path} is JKS, which only Java reads:"
                    f" convert it with `{convert}` and name the result"
                )
            if kind == "PKCS12" and store == "keystore":
                continue
            if kind == "PKCS12":
                password = properties.pop("ssl.truststore.password", None)
                del properties["ssl.truststore.location"]
                properties["ssl.ca.pem"] = _pkcs12(path, password, "ssl.truststore")
        if f"ssl.{store}.password" in properties:
            instead = ": set ssl.key.password for its key" if store == "keystore" else ""
            raise ValueError(f"ssl.{store}.password has no meaning for a store in PEM{instead}")
        for (of, part), names in _OF_JAVA_STORES.items():
            value = properties.pop(f"ssl.{of}.{part}", None) if of == store else None
            if value is not None:
                properties = {**properties, **dict.fromkeys(names, value)}
    for name in _INLINE:
        if name in properties:
            properties[name] = _lines(properties[name], name)
    return properties


def reads_pkcs12() -> bool:
    """Whether Python can read PKCS12 stores here; librdkafka can without it."""
    return find_spec("cryptography") is not None


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """How Python speaks TLS with these properties; None if they ask for none.

    Raises: CommandError.
    """
    if not properties.get("security.protocol", "").endswith("SSL"):
        return None
    try:
        location = properties.get("ssl.ca.location")
        is_folder = location is not None and Path(location).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else location,
            capath=location if is_folder else None,
            cadata=properties.get("ssl.ca.pem"),
        )
        if revoked := properties.get("ssl.crl.location"):
            context.load_verify_locations(revoked)
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        _load_own_certificate(context, properties)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CommandError(f"the TLS properties can't be used: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _kind_of(path: str, name: str) -> str:
    try:
        with open(path, "rb") as file:
            start = file.read(4)
    except OSError as error:
        raise ValueError(f"{name}={path} can't be read: {error.strerror}") from None
    if start.startswith(_JAVA_MAGIC):
        return "JKS"
    return "PKCS12" if start.startswith(b"\x30") else "PEM"


def _pkcs12(path: str, password: str | None, name: str) -> str:
    """The content of a PKCS12 store as PEM.  Raises: ValueError with a sentence."""
    if not reads_pkcs12():
        raise ValueError(
            f"{name}.location={path} is PKCS12, which needs the package cryptography:"
            " pip install 'odradek[tls]'"
        )
    from odradek.broker.tls.pkcs12 import BadPkcs12, pkcs12_pem

    try:
        return pkcs12_pem(Path(path).read_bytes(), password)
    except OSError as error:
        raise ValueError(f"{name}.location={path} can't be read: {error.strerror}") from None
    except BadPkcs12:
        raise ValueError(
            f"{name}.location={path} can't be opened: {name}.password is wrong, or it is damaged"
        ) from None


def _lines(text: str, name: str) -> str:
    """PEM whose lines may have been joined by blanks, as Java permits, with lines again."""
    blocks = blocks_of(text)
    if not blocks:
        raise ValueError(f"{name} is not PEM: it has nothing from -----BEGIN to -----END")
    return "".join(block.text for block in blocks)


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    # Without a function, OpenSSL would ask for the password on the terminal.
    password = properties.get("ssl.key.password") or _no_password
    if location := properties.get("ssl.certificate.location"):
        context.load_cert_chain(location, properties.get("ssl.key.location"), password)
    elif chain := properties.get("ssl.certificate.pem"):
        _load_pem(context, f"{chain}\n{properties.get('ssl.key.pem', '')}", password)
    elif path := properties.get("ssl.keystore.location"):
        pem = _pkcs12(path, properties.get("ssl.keystore.password"), "ssl.keystore")
        _load_pem(context, pem, password)


def _load_pem(context: ssl.SSLContext, pem: str, password: str | Callable[[], str]) -> None:
    """Python reads a key from a file only: from one that nobody else can read, and soon gone."""
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(file.name, password=password)


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted: set ssl.key.password")
