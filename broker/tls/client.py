"""TLS of a broker as a client of other brokers."""

import logging
import ssl
from typing import Final

from ..settings.declaration import ConfigError
from ..settings.tls import ListenerTls
from .context import Tls, choose_versions_and_suites
from .stores import load_key, load_trust

logger = logging.getLogger(__name__)

_FLIGHTS_MAX: Final = 10
"""A handshake has at most five."""
_NOT_TLS: Final = frozenset(
    {"WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"}
)


def make_client_context(given: ListenerTls) -> ssl.SSLContext:
    """The context for connections to other brokers' listeners of this name.  Raises: ConfigError.

    Without a truststore the authorities of the system are trusted, as in Java.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.check_hostname = given["ssl.endpoint.identification.algorithm"] != ""
    choose_versions_and_suites(context, given)
    load_key(context, given)
    if not load_trust(context, given):
        context.load_default_certs()
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as for clients
    return context


def check_client_context(
    client: ssl.SSLContext, served: Tls, given: ListenerTls, *, host: str
) -> None:
    """Check that brokers with these settings can speak with each other.  Raises: ConfigError.

    A certificate that lacks `host`, where others find this broker, is only worth a warning: others
    may not check it.  Neither context may be in use yet.

    Source: org.apache.kafka.common.security.ssl.SslFactory.SslEngineValidator, without the host.
    """
    try:
        _shake_hands(served.context, client, host=None)
    except ssl.SSLError as error:
        raise ConfigError(
            f"the listener {given.listener_name} is for brokers, and they would refuse each other: "
            f"{why_refused(error)}; the certificate of {_store_name(given)} must be one that "
            f"{_trust_name(given)} trusts, for servers and clients"
        ) from None
    if not client.check_hostname:
        return
    try:
        _shake_hands(served.context, client, host=host)
    except ssl.SSLError as error:
        logger.warning(
            "other brokers will refuse this one listener=%s reason=%s; the certificate needs the "
            "host of advertised.listeners as a subject alternative name",
            given.listener_name,
            why_refused(error),
        )


def why_refused(error: ssl.SSLError) -> str:
    """Why a handshake with a broker failed, as a part of a sentence."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the broker's certificate is refused ({error.verify_message.rstrip('.')})"
    reason = error.reason or ""
    if reason in _NOT_TLS:
        return "the broker does not speak TLS there"
    return f"TLS failed ({reason.replace('_', ' ').lower() or error})"


def _store_name(given: ListenerTls) -> str:
    inline = given["ssl.keystore.key"] is not None
    return given.name_of("ssl.keystore.key" if inline else "ssl.keystore.location")


def _trust_name(given: ListenerTls) -> str:
    inline = given["ssl.truststore.certificates"] is not None
    return given.name_of("ssl.truststore.certificates" if inline else "ssl.truststore.location")


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, *, host: str | None) -> None:
    """Try a handshake in memory.  `host`: what the client calls the server; None: any.

    Raises: ssl.SSLError.
    """
    checks_host = client.check_hostname
    client.check_hostname = host is not None
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        ends = [
            client.wrap_bio(to_client, to_server, server_hostname=host),
            server.wrap_bio(to_server, to_client, server_side=True),
        ]
        for _ in range(_FLIGHTS_MAX):
            ends = [end for end in ends if not _has_shaken_hands(end)]
    finally:
        client.check_hostname = checks_host
    assert not ends, "a handshake in memory waits for nothing"


def _has_shaken_hands(end: ssl.SSLObject) -> bool:
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
