"""Settings of OAUTHBEARER: how the tokens of clients are checked, and a broker gets its own.

Each can have the prefix `listener.name.<listener>.oauthbearer.`, in small letters.
"""

from .declaration import DOUBLE, INT, LIST, LONG, SHORT, STRING, Setting


class OAuthBearerSettings:
    """How signed tokens are checked, and where a broker's own ones come from."""

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
        "Where this broker gets the tokens by which it logs in to others, if "
        "`sasl.login.callback.handler.class` is OAuthBearerLoginCallbackHandler: the token "
        "endpoint of an identity provider, with https or http, or a file with a token "
        "(`file:///PATH`), which is read for each login. It must be one of "
        "`org.apache.kafka.sasl.oauthbearer.allowed.urls`.",
    )
    sasl_login_connect_timeout_ms = Setting(
        "sasl.login.connect.timeout.ms",
        INT.or_none,
        None,
        "How long to wait for a connection to the token endpoint; unset: 10 s.",
        at_least=1,
    )
    sasl_login_read_timeout_ms = Setting(
        "sasl.login.read.timeout.ms",
        INT.or_none,
        None,
        "How long to wait for its whole answer; unset: 10 s.",
        at_least=1,
    )
    sasl_login_retry_backoff_ms = Setting(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        "If it does not answer, or says that it cannot now, it is asked again after this time, and "
        "then after twice that time.",
        at_least=1,
    )
    sasl_login_retry_backoff_max_ms = Setting(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        10_000,
        "After this time it is given up for 10 s.",
        at_least=0,
    )
    sasl_login_refresh_window_factor = Setting(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "A token from the token endpoint is renewed after this part of its life.",
        at_least=0.5,
        at_most=1.0,
    )
    sasl_login_refresh_window_jitter = Setting(
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        "A random part of this is added to that part.",
        at_least=0.0,
        at_most=0.25,
    )
    sasl_login_refresh_min_period_seconds = Setting(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "A token is at least this old when it is renewed, if it lasts longer than this and "
        "`sasl.login.refresh.buffer.seconds` together.",
        at_least=0,
        at_most=900,
    )
    sasl_login_refresh_buffer_seconds = Setting(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "A token still lasts at least this long when it is renewed, under the same condition.",
        at_least=0,
        at_most=3600,
    )
    org_apache_kafka_sasl_oauthbearer_allowed_urls = Setting(
        "org.apache.kafka.sasl.oauthbearer.allowed.urls",
        LIST,
        (),
        "The URLs that other settings of OAUTHBEARER may name, each in full. In Kafka, this is a "
        "system property of Java.",
    )
