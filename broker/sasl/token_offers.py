"""What a listener offers to clients of OAUTHBEARER: which tokens it accepts, by its settings."""

import logging
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from odradek.jaas import MODULE_OF

from ..runtime import Runtime
from ..settings.declaration import ConfigError
from ..settings.sasl import (
    ENDPOINT_LOGIN_HANDLER,
    JAAS,
    LOGIN_HANDLER,
    SIGNED_HANDLER,
    ListenerSasl,
)
from ..settings.tls import ListenerTls
from ..slow_reads import SlowReads
from ..tokens import unsecured
from ..tokens.client_credentials import is_option
from .mechanism import ServerMechanism
from .oauthbearer import NAME
from .oauthbearer_server import OAuthBearerServer
from .offers import CALLBACK_HANDLER

if TYPE_CHECKING:
    from ..tokens.refresh import Pauses, RefreshedKeys
    from ..tokens.signed import Rules

logger = logging.getLogger(__name__)

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_RULES: Final = (
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    _URL,
)
TRUST: Final = tuple(
    f"ssl.truststore.{name}" for name in ("location", "type", "password", "certificates")
)
"""Options of the login module, as in Kafka: whom to trust for the URL's https."""


class TokenOffer(NamedTuple):
    """How clients log in by tokens."""

    begin: Callable[[], ServerMechanism]
    """Each call begins a login."""
    keys: "RefreshedKeys | None"
    """What signed tokens are checked with."""


def offer_tokens(
    given: ListenerSasl, options: Mapping[str, str] | None, runtime: Runtime
) -> TokenOffer:
    """Check the settings of a listener; `options` are its login module's.  Raises: ConfigError."""
    if given.of_mechanism(NAME, CALLBACK_HANDLER) == SIGNED_HANDLER:
        return _offer_signed(given, options or {}, runtime)
    if options is not None:
        options = {name: text for name, text in options.items() if not _is_for_login(given, name)}
    for name in _RULES:
        if given.of_mechanism(NAME, name):
            raise ConfigError(
                f"{given.name_of(name, NAME)} has no effect on unsecured tokens: set "
                f"{given.own_name(CALLBACK_HANDLER, NAME)} to {SIGNED_HANDLER}"
            )
    if options is None:
        raise ConfigError(
            f"the listener {given.listener_name} offers {NAME}, but no setting says which tokens "
            f"are accepted: set {given.own_name(CALLBACK_HANDLER, NAME)} to {SIGNED_HANDLER} "
            f"for signed ones, or {given.own_name(JAAS, NAME)} to {MODULE_OF[NAME]} required; "
            "for unsecured ones"
        )
    try:
        validator = unsecured.Validator.of(options)
    except unsecured.BadOption as error:
        raise ConfigError(f"{given.name_of(JAAS, NAME)}: {error}") from None
    logger.warning(
        "the listener %s accepts unsecured tokens, with which anybody can log in as anybody: use "
        "them only in tests",
        given.listener_name,
    )
    return TokenOffer(
        partial(OAuthBearerServer, validator.validate, runtime.clock.wall_ms), keys=None
    )


def _offer_signed(given: ListenerSasl, options: Mapping[str, str], runtime: Runtime) -> TokenOffer:
    try:
        from ..tokens.signed import SignedTokens
    except ModuleNotFoundError:
        raise ConfigError(
            "signed tokens need the package PyJWT: pip install 'odradek[oauth]'"
        ) from None
    from ..tokens.fetch import fetch, parse_url
    from ..tokens.refresh import RefreshedKeys

    _check_options(given, options)
    text, name = given.of_mechanism(NAME, _URL), given.name_of(_URL, NAME)
    if not text:
        raise ConfigError(f"signed tokens need {given.own_name(_URL, NAME)}, or {_URL}")
    try:
        url = parse_url(text)
    except ValueError:
        raise ConfigError(f"{name}={text} must be a URL with https, http or file") from None
    check_allowed(given, name, text)
    if url.scheme == "http":
        logger.warning("%s=%s: who is between can put in keys of his own: use https", name, text)
    context = trust_of(options, given.listener_name) if url.scheme == "https" else None
    reads = SlowReads(runtime)
    keys = RefreshedKeys(
        text,
        lambda: fetch(url, context, reads),
        _pauses(given),
        runtime.clock.now_ms,
    )
    validate = SignedTokens(_rules(given), keys).validate
    return TokenOffer(partial(OAuthBearerServer, validate, runtime.clock.wall_ms), keys)


def check_allowed(given: ListenerSasl, name: str, url: str) -> None:
    """Check that a setting may have this URL.  Raises: ConfigError."""
    if url not in given[ALLOWED_URLS]:
        raise ConfigError(f"{name}={url} is not allowed: set {ALLOWED_URLS} to a list that has it")


def _check_options(given: ListenerSasl, options: Mapping[str, str]) -> None:
    for option in options:
        # Kafka's brokers cannot start without options for an unsecured login of their own.
        is_for_login = option.startswith("unsecuredLogin") or _is_for_login(given, option)
        if option not in TRUST and not is_for_login:
            raise ConfigError(
                f"{given.name_of(JAAS, NAME)}: {option} has no effect on signed tokens; only "
                f"{', '.join(TRUST)} have"
            )


def _is_for_login(given: ListenerSasl, option: str) -> bool:
    """Whether an option is for this broker's own logins, by a token endpoint."""
    handler: str | None = given.of_mechanism(NAME, LOGIN_HANDLER)
    return handler == ENDPOINT_LOGIN_HANDLER and (is_option(option) or option in TRUST)


def trust_of(options: Mapping[str, str], listener_name: str = "") -> ssl.SSLContext:
    """Whom to trust for https, by the options of the login module.  Raises: ConfigError."""
    from ..tls.stores import load_trust

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if not load_trust(context, ListenerTls(listener_name, options)):
        context.load_default_certs()
    return context


def _pauses(given: ListenerSasl) -> "Pauses":
    from ..tokens.refresh import Pauses

    def at_least_1(name: str) -> int:
        value: int = given.of_mechanism(NAME, name)
        if value < 1:
            raise ConfigError(f"{given.name_of(name, NAME)}={value} must be at least 1")
        return value

    return Pauses(
        at_least_1("sasl.oauthbearer.jwks.endpoint.refresh.ms"),
        at_least_1("sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"),
        at_least_1("sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"),
    )


def _rules(given: ListenerSasl) -> "Rules":
    from ..tokens.signed import Rules

    def value(name: str) -> str:
        text: str = given.of_mechanism(NAME, name) or ""
        if text != text.strip() or not text:
            raise ConfigError(f"{given.name_of(name, NAME)}={text} must not be blank")
        return text

    skew_s: int = given.of_mechanism(NAME, "sasl.oauthbearer.clock.skew.seconds")
    if skew_s < 0:
        raise ConfigError(
            f"{given.name_of('sasl.oauthbearer.clock.skew.seconds', NAME)}={skew_s} must be at "
            "least 0"
        )
    return Rules(
        value("sasl.oauthbearer.sub.claim.name"),
        value("sasl.oauthbearer.scope.claim.name"),
        given.of_mechanism(NAME, "sasl.oauthbearer.expected.audience") or None,
        given.of_mechanism(NAME, "sasl.oauthbearer.expected.issuer") or None,
        skew_s,
    )
