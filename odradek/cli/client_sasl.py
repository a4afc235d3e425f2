"""How a client logs in: Java's JAAS texts under librdkafka's names, and what must be given."""

from collections.abc import Mapping
from typing import Final

from odradek.jaas import OAUTHBEARER_MODULE, parse_jaas, parse_jaas_for

PASSWORD_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
OAUTHBEARER: Final = "OAUTHBEARER"
_JAAS: Final = "sasl.jaas.config"
_OF_USER: Final = ("sasl.username", "sasl.password")


def without_jaas(properties: dict[str, str]) -> dict[str, str]:
    """User and password out of Java's sasl.jaas.config, which no other client reads.

    Raises: ValueError with a sentence.
    """
    text = properties.pop(_JAAS, None)
    if text is None:
        return properties
    for name in _OF_USER:
        if name in properties:
            raise ValueError(f"{_JAAS} and {name} exclude each other: give one of them")
    mechanism = properties.get("sasl.mechanism")
    module = parse_jaas(text)
    if mechanism == OAUTHBEARER or module.is_module(OAUTHBEARER_MODULE):
        raise ValueError(f"{_JAAS} is not read for {OAUTHBEARER}: give sasl.oauthbearer.* instead")
    if mechanism in PASSWORD_MECHANISMS:
        parse_jaas_for(mechanism, text)
    if not {"username", "password"} <= module.options.keys():
        raise ValueError(f'{_JAAS} gives no username="…" and password="…"')
    found = {name: module.options[name.removeprefix("sasl.")] for name in _OF_USER}
    return {**properties, **found}


def check_login(properties: Mapping[str, str]) -> None:
    """Refuse what lets no client log in.  Raises: ValueError with a sentence."""
    protocol = properties.get("security.protocol", "")
    if not protocol.startswith("SASL"):
        return
    mechanism = properties.get("sasl.mechanism")
    known = f"use one of {', '.join(PASSWORD_MECHANISMS)}"
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
                raise ValueError(f"sasl.mechanism={mechanism} needs {name}, or {_JAAS} with both")


def _check_tokens(properties: Mapping[str, str]) -> None:
    """librdkafka would wait for a token without end if nothing makes one."""
    if (
        properties.get("sasl.oauthbearer.method") != "oidc"
        and properties.get("enable.sasl.oauthbearer.unsecure.jwt") != "true"
    ):
        raise ValueError(
            f"sasl.mechanism={OAUTHBEARER} needs sasl.oauthbearer.method=oidc, or"
            " enable.sasl.oauthbearer.unsecure.jwt=true for tests"
        )
