"""Tokens that a command gets from a token endpoint, by the client id and secret of Java's JAAS.

One command asks once, though several clients of it log in; a command that goes on asks again before
a token ends.
"""

import threading
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.endpoint_login import new_endpoint, read_client, renewals_of, shown
from odradek.broker.sasl.token_login import TokenSource
from odradek.broker.sasl.token_offers import TRUST, trust_of
from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.sasl import SASL_SETTINGS
from odradek.broker.tokens.client_credentials import OwnToken, TokenRefused, is_option
from odradek.broker.tokens.endpoint import TokenEndpoint
from odradek.broker.tokens.fetch import parse_url
from odradek.broker.tokens.http_exchange import FetchFailed
from odradek.broker.tokens.renewal import AGAIN_AFTER_MS
from odradek.broker.tokens.renewed import Renewals
from odradek.broker.tokens.unsecured import BadOption
from odradek.jaas import parse_jaas_for

from .client_sasl import JAAS, OAUTHBEARER, TOKEN_PROPERTIES, TOKEN_URL, URL_ENCODES

_LEFT_MS_MIN: Final = 2_000
"""Of an old token: librdkafka shows one that ends sooner again and again, as brokers refuse."""
_CHOICES: Final = {"false": False, "true": True}


class EndpointTokens:
    """The token of one command."""

    def __init__(self, endpoint: TokenEndpoint, renewals: Renewals, shown: str) -> None:
        """`shown` names the endpoint in messages."""
        self._endpoint = endpoint
        self._renewals = renewals
        self._shown = shown
        self._token: OwnToken | None = None
        self._renew_at_ms = 0
        self._lock = threading.Lock()

    def current(self) -> str:
        """A token for a login.  Blocks.  Raises: ServerRefused."""
        with self._lock:
            if self._renew_at_ms <= _wall_ms():
                try:
                    self._renew()
                except FetchFailed as error:
                    if self._token is None or self._token.expires_ms - _LEFT_MS_MIN <= _wall_ms():
                        raise ServerRefused(f"gets no token: {self._shown} {error}") from None
                    self._renew_at_ms = _wall_ms() + AGAIN_AFTER_MS
            assert self._token is not None
            return self._token.text

    def _renew(self) -> None:
        self._token = token = self._fetched()
        window = self._renewals.window
        self._renew_at_ms = window.renew_at_ms(
            token.issued_ms, token.expires_ms, _wall_ms(), random=0.0
        )

    def _fetched(self) -> OwnToken:
        begun_s, tries = time.monotonic(), 0
        while True:
            try:
                return self._endpoint.fetch()
            except TokenRefused:
                raise
            except FetchFailed:
                tries += 1
                spent_ms = int(1000 * (time.monotonic() - begun_s))
                pause_ms = self._renewals.retries.pause_after_ms(tries, spent_ms)
                if pause_ms is None:
                    raise
            time.sleep(pause_ms / 1000)


def endpoint_source(properties: Mapping[str, str]) -> TokenSource:
    """The tokens that these properties name.  Raises: ValueError with a sentence."""
    given = {name: value for name, value in properties.items() if name in TOKEN_PROPERTIES}
    try:
        return _source(frozenset(given.items()))
    except ConfigError as error:
        raise ValueError(str(error)) from None
    except BadOption as error:
        raise ValueError(f"{JAAS}: {error}") from None


@cache
def _source(items: frozenset[tuple[str, str]]) -> TokenSource:
    """Raises: ConfigError, ValueError."""
    properties = dict(items)
    url = parse_url(properties[TOKEN_URL])
    options = parse_jaas_for(OAUTHBEARER, properties[JAAS]) if JAAS in properties else {}
    for name in options:
        if not is_option(name) and name not in TRUST:
            raise BadOption(f"{name} is not an option for tokens of a token endpoint")
    client, extensions = read_client(options, url_encodes=_url_encodes(properties))

    def value_of(name: str) -> Any:
        setting = SASL_SETTINGS[name]
        return setting.parse(properties[name]) if name in properties else setting.default

    context = trust_of(options) if url.scheme == "https" else None
    endpoint = new_endpoint(url, client, context, value_of, time.monotonic)
    tokens = EndpointTokens(endpoint, renewals_of(value_of), shown(TOKEN_URL, url))
    return TokenSource(client.client_id, tokens.current, extensions)


def _url_encodes(properties: Mapping[str, str]) -> bool:
    text = properties.get(URL_ENCODES, "false")
    found = _CHOICES.get(text.lower())
    if found is None:
        raise ValueError(f"{URL_ENCODES}={text} must be true or false")
    return found


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
