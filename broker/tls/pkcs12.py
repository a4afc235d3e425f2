"""PKCS12 stores as PEM, by the package cryptography of the extra `tls`."""

from collections.abc import Sequence

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509 import Certificate


class BadPkcs12(ValueError):
    """The password is wrong, or the bytes are no PKCS12 that can be read."""


def pkcs12_pem(data: bytes, password: str | None) -> str:
    """The content of a store as PEM.

    With a private key: the key, its certificate, and those that it comes from, in order. Without
    one: all certificates, as in the truststores that keytool writes.

    Raises: BadPkcs12.
    """
    try:
        found = pkcs12.load_pkcs12(data, password.encode() if password else None)
        more = [each.certificate for each in found.additional_certs]
        own = [found.cert.certificate] if found.cert is not None else []
        parts = [each.public_bytes(Encoding.PEM) for each in _chain(own, more)]
        if found.key is not None:
            form = (Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            parts.insert(0, found.key.private_bytes(*form))
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadPkcs12 from None
    return b"".join(parts).decode()


def _chain(own: Sequence[Certificate], more: Sequence[Certificate]) -> list[Certificate]:
    """The own certificate followed by its issuers; all of `more`, if there is no own one."""
    if not own:
        return list(more)
    chain, left = list(own), list(more)
    while issuers := [each for each in left if _has_issued(each, chain[-1])]:
        chain.append(issuers[0])
        left = [each for each in left if each != issuers[0]]
    return chain


def _has_issued(issuer: Certificate, certificate: Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
