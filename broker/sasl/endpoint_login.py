"""A broker, or a command, that gets its tokens from a token endpoint, by client id and secret.

Source: KIP-768; OAuthBearerLoginCallbackHandler in Kafka.
"""

import logging
from collections.abc import Callable, Mapping
from functools import partial
from ssl import SSLContext
from typing import Any, Final
from urllib.parse import SplitResult

from ..runtime import Runtime
from ..settings.declaration import ConfigError
from ..settings.sasl import JAAS, ListenerSasl
from ..slow_reads import SlowReads
from ..tokens.client_credentials import ClientCredentials, OwnToken, extensions_in
from ..tokens.endpoint import TokenEndpoint
from ..tokens.http_exchange import FetchFailed
from ..tokens.renewal import Retries, Window
from ..tokens.renewed import Renewals, RenewedToken
from ..tokens.unsecured import BadOption
from .client import Credentials, ServerRefused
from .client_oauthbearer import OAuthBearerClient
from .oauthbearer import NAME, is_extension
from .token_offers import check_allowed, trust_of

logger = logging.getLogger(__name__)

TOKEN_URL: Final = "sasl.oauthbearer.token.endpoint.url"
_TIMEOUT_MS: Final = 10_000

ValueOf = Callable[[str], Any]
"""The value of a setting, by Kafka's name."""


def endpoint_credentials(
    given: ListenerSasl, options: Mapping[str, str], url: SplitResult, runtime: Runtime
) -> Credentials:
    """The credentials for a listener; `options` are its login module's.  Raises: ConfigError."""
    text, name = url.geturl(), given.name_of(TOKEN_URL, NAME)
    check_allowed(given, name, text)
    if url.scheme == "http":
        logger.warning("%s: who is between sees the client's secret: use https", shown(name, url))
    try:
        client, extensions = read_client(options)
    except BadOption as error:
        raise ConfigError(f"{given.name_of(JAAS, NAME)}: {error}") from None
    value_of = partial(given.of_mechanism, NAME)
    context = trust_of(options, given.listener_name) if url.scheme == "https" else None
    now_ms = runtime.clock.now_ms
    endpoint = new_endpoint(url, client, context, value_of, lambda: now_ms() / 1000)
    token = RenewedToken(
        shown(name, url),
        partial(_fetch, endpoint, SlowReads(runtime, endpoint.timeout_s)),
        renewals_of(value_of),
        runtime.clock,
        runtime.random.random,
    )

    async def begin() -> OAuthBearerClient:
        try:
            return OAuthBearerClient(await token.current(), extensions)
        except FetchFailed as error:
            raise ServerRefused(f"gets no token: {token.shown} {error}") from None

    return Credentials(NAME, client.client_id, begin, token.renew_forever)


def read_client(
    options: Mapping[str, str], *, url_encodes: bool = False
) -> tuple[ClientCredentials, Mapping[str, str]]:
    """Who asks for tokens, and what goes with them to the server.  Raises: BadOption."""
    extensions = extensions_in(options)
    for name, value in extensions.items():
        if not is_extension(name, value):
            raise BadOption(f"extension_{name} is not allowed")
    return ClientCredentials.of(options, url_encodes=url_encodes), extensions


def new_endpoint(
    url: SplitResult,
    client: ClientCredentials,
    context: SSLContext | None,
    value_of: ValueOf,
    now_s: Callable[[], float],
) -> TokenEndpoint:
    """The token endpoint with its settings."""
    return TokenEndpoint(
        url=url,
        credentials=client,
        context=context,
        user_claim=value_of("sasl.oauthbearer.sub.claim.name"),
        connect_timeout_s=(value_of("sasl.login.connect.timeout.ms") or _TIMEOUT_MS) / 1000,
        answer_timeout_s=(value_of("sasl.login.read.timeout.ms") or _TIMEOUT_MS) / 1000,
        now_s=now_s,
    )


def renewals_of(value_of: ValueOf) -> Renewals:
    """When tokens are renewed, by the settings."""
    window = Window(
        value_of("sasl.login.refresh.window.factor"),
        value_of("sasl.login.refresh.window.jitter"),
        1000 * value_of("sasl.login.refresh.min.period.seconds"),
        1000 * value_of("sasl.login.refresh.buffer.seconds"),
    )
    retries = Retries(
        value_of("sasl.login.retry.backoff.ms"), value_of("sasl.login.retry.backoff.max.ms")
    )
    return Renewals(window, retries)


def shown(name: str, url: SplitResult) -> str:
    """How messages name the endpoint; what stands after `?` may be a secret."""
    return f"{name}={url._replace(query='', fragment='').geturl()}"


async def _fetch(endpoint: TokenEndpoint, reads: SlowReads) -> OwnToken:
    """Have a thread ask.  Raises: FetchFailed, TokenRefused."""
    try:
        return await reads(endpoint.fetch)
    except TimeoutError:
        raise FetchFailed(f"does not answer within {endpoint.timeout_s:g} s") from None
