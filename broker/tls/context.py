"""The TLS of one listener, made from its settings."""

import ssl
from typing import Final, NamedTuple

from ..settings.declaration import ConfigError
from ..settings.tls import ListenerTls
from .ciphers import TLS_1_3, openssl_name
from .mapping import RULES, BadRules, MappingRules
from .stores import load_key, load_trust
from .subject import BadDer, alternative_names_of, subject_of

ALLOW_DN: Final = "ssl.allow.dn.changes"
ALLOW_SAN: Final = "ssl.allow.san.changes"
_VERSIONS: Final = {
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_PROTOCOLS: Final = ("TLS", *_VERSIONS)
_VERIFICATION: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class Tls(NamedTuple):
    """What a listener needs for handshakes and for the names of its clients."""

    context: ssl.SSLContext
    rules: MappingRules
    certificate: bytes
    """The broker's own, in DER."""
    names_clients: bool = True
    """Whether clients get their names from their certificates."""

    def user(self, certificate: bytes) -> str:
        """The user with this certificate, in DER.  Raises: BadDer, NoRuleFits."""
        return self.rules.user(subject_of(certificate))


def make_tls(given: ListenerTls) -> Tls:
    """Check the settings of a listener, and load its stores.  Raises: ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    choose_versions_and_suites(context, given)
    certificate = load_key(context, given)
    wanted = given["ssl.client.auth"]
    has_trust = load_trust(context, given)
    if wanted != "none" and not has_trust:
        raise ConfigError(
            f"{given.name_of('ssl.client.auth')}={wanted} needs ssl.truststore.location or "
            "ssl.truststore.certificates, the authorities that clients' certificates come from"
        )
    # As in Java, whatever is in the truststore is trusted, even if it is no root.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_mode = _VERIFICATION[wanted]
    try:
        rules = MappingRules(given[RULES])
        return Tls(context, rules, certificate, names_clients=not given.has_sasl)
    except BadRules as error:
        raise ConfigError(f"{given.name_of(RULES)} is not allowed: {error}") from None


def check_names(new: Tls, old: Tls, given: ListenerTls) -> None:
    """Check that a certificate may replace another one.  Raises: ConfigError.

    Source: org.apache.kafka.common.security.ssl.SslFactory.CertificateEntries.
    """
    try:
        names = [subject_of(each.certificate) for each in (old, new)]
        before, after = (alternative_names_of(each.certificate) for each in (old, new))
    except BadDer as error:
        raise ConfigError(f"the new certificate cannot be read: {error}") from None
    is_same = len({" ".join(name.casefold().split()) for name in names}) == 1
    if not is_same and not given[ALLOW_DN]:
        raise ConfigError(
            f"the new certificate has the subject {names[1]!r} and the old one {names[0]!r}, and "
            f"{given.name_of(ALLOW_DN)} is false"
        )
    if not before <= after and not given[ALLOW_SAN]:
        raise ConfigError(
            "the new certificate lacks subject alternative names of the old one, and "
            f"{given.name_of(ALLOW_SAN)} is false"
        )


def choose_versions_and_suites(context: ssl.SSLContext, given: ListenerTls) -> None:
    """Permit what the settings permit.  Raises: ConfigError."""
    name = given.name_of("ssl.enabled.protocols")
    versions = set(given["ssl.enabled.protocols"])
    if not versions or not versions <= _VERSIONS.keys():
        raise ConfigError(
            f"{name}={','.join(sorted(versions))} is not allowed: it must be a list of "
            f"{', '.join(_VERSIONS)}; older versions are not safe"
        )
    if given["ssl.protocol"] not in _PROTOCOLS:
        raise ConfigError(
            f"{given.name_of('ssl.protocol')}={given['ssl.protocol']} is not allowed: it must be "
            f"one of {', '.join(_PROTOCOLS)}"
        )
    suites = given["ssl.cipher.suites"]
    if suites:
        versions &= _choose_suites(context, suites, given.name_of("ssl.cipher.suites"))
        if not versions:
            raise ConfigError(
                f"{given.name_of('ssl.cipher.suites')} has no suite for {name}="
                f"{','.join(given['ssl.enabled.protocols'])}"
            )
    context.minimum_version = _VERSIONS[min(versions)]
    context.maximum_version = _VERSIONS[max(versions)]


def _choose_suites(context: ssl.SSLContext, suites: tuple[str, ...], name: str) -> set[str]:
    """Choose the suites of TLS 1.2; return the versions that have suites among `suites`."""
    newer = TLS_1_3.intersection(suites)
    if newer and newer != TLS_1_3:
        raise ConfigError(
            f"{name} is not allowed: Python cannot choose among the suites of TLS 1.3; name all of "
            f"{', '.join(sorted(TLS_1_3))}, or none of them"
        )
    names = {suite: openssl_name(suite) for suite in suites if suite not in TLS_1_3}
    unknown = [suite for suite, known in names.items() if known is None]
    if unknown:
        raise ConfigError(f"{name} is not allowed: {unknown[0]!r} is not a suite that can be used")
    if names:
        try:
            context.set_ciphers(":".join(filter(None, names.values())))
        except ssl.SSLError:
            raise ConfigError(
                f"{name} is not allowed: OpenSSL on this machine has none of these suites"
            ) from None
    return {*(["TLSv1.3"] if newer else []), *(["TLSv1.2"] if names else [])}
