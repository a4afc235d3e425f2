"""How a client logs in: Java's JAAS texts under librdkafka's names, and what must be given."""

from collections.abc import Mapping
from typing import Final

from odradek.jaas import OAUTHBEARER_MODULE, parse_jaas, parse_jaas_for

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
JAAS: Final = "sasl.jaas.config"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
URL_ENCODES: Final = "sasl.oauthbearer.header.urlencode"
USER_CLAIM: Final = "sasl.oauthbearer.sub.claim.name"
TOKEN_PROPERTIES: Final = frozenset(
    {
        JAAS,
        LOGIN_HANDLER,
        TOKEN_URL,
        URL_ENCODES,
        "sasl.login.connect.timeout.ms",
        "sasl.login.read.timeout.ms",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.login.retry.backoff.max.ms",
        "sasl.login.retry.backoff.ms",
        USER_CLAIM,
    }
)
"""Java's, for tokens of OAUTHBEARER that the commands make, read or get themselves."""
_OF_USER: Final = ("sasl.username", "sasl.password")


def without_jaas(properties: dict[str, str]) -> dict[str, str]:
    """User and password out of Java's sasl.jaas.config, which no other client reads.

    Raises: ValueError with a sentence.
    """
    text = properties.pop(JAAS, None)
    if text is None:
        return properties
    for name in _OF_USER:
        if name in properties:
            raise ValueError(f"{JAAS} and {name} exclude each other: give one of them")
    mechanism = properties.get("sasl.mechanism")
    module = parse_jaas(text)
    if mechanism == OAUTHBEARER or module.is_module(OAUTHBEARER_MODULE):
        return {**properties, JAAS: text}
    if mechanism in PASSWORD_MECHANISMS:
        parse_jaas_for(mechanism, text)
    if not {"username", "password"} <= module.options.keys():
        raise ValueError(f'{JAAS} gives no username="…" and password="…"')
    found = {name: module.options[name.removeprefix("sasl.")] for name in _OF_USER}
    return {**properties, **found}


def check_login(properties: Mapping[str, str]) -> None:
    """Refuse what lets no client log in.  Raises: ValueError with a sentence."""
    protocol = properties.get("security.protocol", "")
    if not protocol.startswith("SASL"):
        return
    mechanism = properties.get("sasl.mechanism")
    known = f"use one of {', '.join((*PASSWORD_MECHANISMS, OAUTHBEARER))}"
    if mechanism is None:
        raise ValueError(
            f"security.protocol={protocol} needs sasl.mechanism, as GSSAPI, the default of Kafka's"
            f" clients, is not supported: {known}"
        )
    if mechanism == OAUTHBEARER:
        _check_tokens(properties)
    elif mechanism not in PASSWORD_MECHANISMS:
        raise ValueError(f"sasl.mechanism={mechanism} is not supported: {known}")
    else:
        for name in _OF_USER:
            if not properties.get(name):
                raise ValueError(f"sasl.mechanism={mechanism} needs {name}, or {JAAS} with both")


def _check_tokens(properties: Mapping[str, str]) -> None:
    """librdkafka would wait for a token without end if nothing makes one."""
    if is_librdkafkas(properties):
        return
    from .client_tokens import token_source

    if token_source(properties) is None:
        raise ValueError(
            f"sasl.mechanism={OAUTHBEARER} needs a token: from a token endpoint or a file, by"
            f" {LOGIN_HANDLER} and {TOKEN_URL}; or for"
            f" tests, by {JAAS}; or for produce and consume, by sasl.oauthbearer.method=oidc"
        )


def is_librdkafkas(properties: Mapping[str, str]) -> bool:
    """Whether librdkafka has its own way to tokens."""
    return (
        properties.get("sasl.oauthbearer.method") == "oidc"
        or properties.get("enable.sasl.oauthbearer.unsecure.jwt") == "true"
    )


def has_own_tokens(properties: Mapping[str, str]) -> bool:
    """Whether a command makes or reads the tokens itself."""
    return properties.get("sasl.mechanism") == OAUTHBEARER and not is_librdkafkas(properties)
