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
        "How often the public keys of the identity provider are read again, from a file too. Kafka "
        "reads a file only once.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
        LONG,
        100,
        "How long to wait before the first retry if the public keys cannot be read. The wait "
        "doubles with each retry.",
    )
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = Setting(
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
        LONG,
        10_000,
        "How long to retry reading the public keys. After that, they are not read before the next "
        "refresh.",
    )
    sasl_oauthbearer_clock_skew_seconds = Setting(
        "sasl.oauthbearer.clock.skew.seconds",
        INT,
        30,
        "By how much the clock of the identity provider may differ from the broker's.",
    )
    sasl_oauthbearer_expected_audience = Setting(
        "sasl.oauthbearer.expected.audience",
        LIST.or_none,
        None,
        "The audiences of which a token's claim `aud` must name one. Unset: the claim is not "
        "checked.",
    )
    sasl_oauthbearer_expected_issuer = Setting(
        "sasl.oauthbearer.expected.issuer",
        STRING.or_none,
        None,
        "The issuer that a token's claim `iss` must name. Unset: the claim is not checked.",
    )
    sasl_oauthbearer_scope_claim_name = Setting(
        "sasl.oauthbearer.scope.claim.name",
        STRING,
        "scope",
        "The claim with the scopes of a token. A token may lack it, but no scope may be empty or "
        "named twice.",
    )
    sasl_oauthbearer_sub_claim_name = Setting(
        "sasl.oauthbearer.sub.claim.name",
        STRING,
        "sub",
        "The claim with the user's name, which becomes the principal.",
    )
    sasl_oauthbearer_token_endpoint_url = Setting(
        "sasl.oauthbearer.token.endpoint.url",
        STRING.or_none,
        None,
        "Where this broker gets the tokens with which it logs in to other brokers, if "
        "`sasl.login.callback.handler.class` is OAuthBearerLoginCallbackHandler. It is the URL of "
        "an identity provider's token endpoint (https or http), or of a file with a token "
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
        "How long to wait for the whole response of the token endpoint; unset: 10 s.",
        at_least=1,
    )
    sasl_login_retry_backoff_ms = Setting(
        "sasl.login.retry.backoff.ms",
        LONG,
        100,
        "How long to wait before the first retry if the token endpoint does not respond or is "
        "unavailable. The wait doubles with each retry.",
        at_least=1,
    )
    sasl_login_retry_backoff_max_ms = Setting(
        "sasl.login.retry.backoff.max.ms",
        LONG,
        10_000,
        "How long to retry the token endpoint. After that, it is not asked for 10 s.",
        at_least=0,
    )
    sasl_login_refresh_window_factor = Setting(
        "sasl.login.refresh.window.factor",
        DOUBLE,
        0.8,
        "The fraction of its lifetime after which a token from the token endpoint is renewed.",
        at_least=0.5,
        at_most=1.0,
    )
    sasl_login_refresh_window_jitter = Setting(
        "sasl.login.refresh.window.jitter",
        DOUBLE,
        0.05,
        "The largest random fraction of its lifetime by which the renewal of a token is put off.",
        at_least=0.0,
        at_most=0.25,
    )
    sasl_login_refresh_min_period_seconds = Setting(
        "sasl.login.refresh.min.period.seconds",
        SHORT,
        60,
        "How old a token must be before it is renewed. Ignored if its lifetime is shorter than "
        "this and `sasl.login.refresh.buffer.seconds` together.",
        at_least=0,
        at_most=900,
    )
    sasl_login_refresh_buffer_seconds = Setting(
        "sasl.login.refresh.buffer.seconds",
        SHORT,
        300,
        "How long before its expiry a token is renewed at the latest. Ignored if its lifetime is "
        "shorter than this and `sasl.login.refresh.min.period.seconds` together.",
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
