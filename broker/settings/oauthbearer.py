"""Settings of OAUTHBEARER: how the tokens of clients are checked.

Each can have the prefix `listener.name.<listener>.oauthbearer.`, in small letters.
"""

from .declaration import INT, LIST, LONG, STRING, Setting


class OAuthBearerSettings:
    """How signed tokens are checked."""

    sasl_oauthbearer_jwks_endpoint_url = Setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        STRING.or_none,
        None,
        "Where the public keys of the identity provider are, as a JWKS: a URL with https, http or "
        "file. It must be one of `org.apache.kafka.sasl.oauthbearer.allowed.urls`.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        LONG,
        3_600_000,
        "How often they are read again; also those in a file, which Kafka reads once.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "If that fails, it is tried again after this time, and then after twice that time.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "After this time it is given up until the next refresh.",
    )
    sasl_oauthbearer_clock_skew_seconds = Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "How far the clock of the identity provider may be off.",
    )
    sasl_oauthbearer_expected_audience = Setting(
        "sasl.oauthbearer.expected.audience",
        LIST.or_none,
        None,
        "The claim aud of a token must have one of these. Unset: it is not looked at.",
    )
    sasl_oauthbearer_expected_issuer = Setting(
        "sasl.oauthbearer.expected.issuer",
        STRING.or_none,
        None,
        "The claim iss of a token must be this. Unset: it is not looked at.",
    )
    sasl_oauthbearer_scope_claim_name = Setting(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "The claim with the scopes of a token. It may be missing, but must not have empty or equal "
        "ones.",
    )
    sasl_oauthbearer_sub_claim_name = Setting(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim with the user, who becomes the principal.",
    )
    sasl_oauthbearer_token_endpoint_url = Setting(
        "sasl.oauthbearer.token.endpoint.url",
        STRING.or_none,
        None,
        "The file with the token by which this broker logs in to others, as `file:///PATH`, if "
        "`sasl.login.callback.handler.class` is OAuthBearerLoginCallbackHandler. It is read for "
        "each login.",
    )
    org_apache_kafka_sasl_oauthbearer_allowed_urls = Setting(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        LIST,
        (),
        "The URLs that other settings of OAUTHBEARER may name, each in full. In Kafka, this is a "
        "system property of Java.",
    )
