"""An authority of one's own, and the certificates that it issues, as PEM.

The keys are of the curve P-256, which every client knows, and whose handshakes are cheap.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import Final, NamedTuple, Self

from odradek.broker.settings.declaration import ConfigError

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise ConfigError(
        "making certificates needs the package cryptography: pip install 'odradek[tls]'"
    ) from None

AUTHORITY_DAYS: Final = 3650
CERTIFICATE_DAYS: Final = 397
"""The longest that browsers and some libraries accept."""
_CLOCKS_DIFFER: Final = timedelta(hours=1)


class Issued(NamedTuple):
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes

    @property
    def store(self) -> bytes:
        """Both in one text, as ssl.keystore.location has it."""
        return self.key + self.certificate


class Authority:
    """Issues certificates."""

    def __init__(self, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def make(cls, name: str, now: datetime) -> Self:
        """A new authority with the common name `name`."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        usage = _usage(signs_certificates=True)
        certificate = (
            _builder(subject, subject, key, now, AUTHORITY_DAYS)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def load(cls, issued: Issued) -> Self:
        """An authority from its PEM.  Raises: ValueError."""
        key = serialization.load_pem_private_key(issued.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is not one of an elliptic curve")
        return cls(x509.load_pem_x509_certificate(issued.certificate), key)

    @property
    def pem(self) -> Issued:
        """The authority's own certificate and key."""
        return _pem(self._certificate, self._key)

    def issue(self, name: str, hosts: Iterable[str], now: datetime) -> Issued:
        """A certificate with the common name `name`, for servers with these names or addresses."""
        key = ec.generate_private_key(ec.SECP256R1())
        own = self._certificate.subject
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        certificate = (
            _builder(_named(name), own, key, now, CERTIFICATE_DAYS)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), False)
            .add_extension(x509.SubjectAlternativeName(map(_alternative, hosts)), False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(identifier, False)
            .sign(self._key, hashes.SHA256())
        )
        return _pem(certificate, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    days: int,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCKS_DIFFER)
        .not_valid_after(now + timedelta(days=days))
    )


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host if host.isascii() else host.encode("idna").decode())


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Issued:
    encoding = serialization.Encoding.PEM
    return Issued(
        certificate.public_bytes(encoding),
        key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    )
