"""Kafka's settings of SASL, tokens, principals and some of TLS that are not built yet."""

from typing import Final

from .declaration import (
    CLASS,
    DOUBLE,
    LIST,
    LONG,
    PASSWORD,
    STRING,
    Kind,
    Setting,
    Value,
)

_KAFKAS_ENGINES: Final = "org.apache.kafka.common.security.ssl.DefaultSslEngineFactory"
_ENGINES: Final = Kind(
    CLASS.name, CLASS.code, CLASS.noun, lambda text: None if text == _KAFKAS_ENGINES else text
)
"""Kafka's own class, which it takes if none is set, is read as none."""

# fmt: off

AUTHORIZATION: Final[tuple[Setting[Value], ...]] = (
    Setting("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "How to name whoever logged in.",
        refused_because="clients would have other names than this class gives them"),
    Setting("delegation.token.secret.key", PASSWORD.or_none, None,
        "The key with which delegation tokens are made; the same on all brokers."),
    Setting("delegation.token.master.key", PASSWORD.or_none, None,
        "The older name of delegation.token.secret.key."),
    Setting("delegation.token.expiry.time.ms", LONG, 86_400_000,
        "A token lasts this long unless it is renewed.", at_least=1),
    Setting("delegation.token.max.lifetime.ms", LONG, 604_800_000,
        "A token lasts this long at most.", at_least=1),
    Setting("delegation.token.expiry.check.interval.ms", LONG, 3_600_000,
        "How often to look for expired tokens.", at_least=1),
    Setting("security.providers", STRING.or_none, None,
        "Java classes that provide algorithms."),
)

SSL: Final[tuple[Setting[Value], ...]] = (
    Setting("ssl.provider", STRING.or_none, None,
        "Java's security provider for TLS."),
    Setting("ssl.keymanager.algorithm", STRING, "SunX509",
        "Java's algorithm for keys."),
    Setting("ssl.trustmanager.algorithm", STRING, "PKIX",
        "Java's algorithm for trust."),
    Setting("ssl.secure.random.implementation", STRING.or_none, None,
        "Java's source of random numbers for TLS."),
    Setting("ssl.engine.factory.class", _ENGINES, None,
        "A Java class that makes TLS engines.",
        refused_because="clients would be let in whom this class refuses"),
)

SASL: Final[tuple[Setting[Value], ...]] = (
    Setting("sasl.client.callback.handler.class", CLASS.or_none, None,
        "A Java class that answers for the broker's own logins."),
    Setting("sasl.login.class", CLASS.or_none, None,
        "A Java class that performs the broker's own logins."),
    Setting("sasl.kerberos.service.name", STRING.or_none, None,
        "The broker's name in Kerberos."),
    Setting("sasl.kerberos.kinit.cmd", STRING, "/usr/bin/kinit",
        "Path of kinit."),
    Setting("sasl.kerberos.min.time.before.relogin", LONG, 60_000,
        "Wait this long, in ms, between logins to Kerberos."),
    Setting("sasl.kerberos.principal.to.local.rules", LIST, ("DEFAULT",),
        "Rules that turn a Kerberos principal into a user."),
    Setting("sasl.kerberos.ticket.renew.jitter", DOUBLE, 0.05,
        "Random part of the time to a renewal."),
    Setting("sasl.kerberos.ticket.renew.window.factor", DOUBLE, 0.8,
        "Renew a ticket after this part of its time."),
)

SECURITY: Final = AUTHORIZATION + SSL + SASL
