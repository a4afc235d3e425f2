"""Tokens of OAUTHBEARER that the commands get themselves, by Java's properties.

They come from a token endpoint or from a file, or are unsecured ones, as the options of the login
module say.  With its own properties (sasl.oauthbearer.method=oidc) librdkafka gets them, for
produce and consume.
"""

import time
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import unquote

import click

from odradek.broker.sasl.client import ServerRefused
from odradek.broker.sasl.token_login import TokenSource, file_source, unsecured_source
from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER
from odradek.broker.tokens.fetch import parse_url
from odradek.broker.tokens.token import InvalidToken, decode_part, seconds_of
from odradek.broker.tokens.token_file import BadTokenFile
from odradek.broker.tokens.unsecured import BadOption
from odradek.jaas import parse_jaas_for

from .client_sasl import JAAS, LOGIN_HANDLER, OAUTHBEARER, TOKEN_URL, USER_CLAIM
from .errors import CommandError

_UNKNOWN_LIFE_S: Final = 300


def token_source(properties: Mapping[str, str]) -> TokenSource | None:
    """Where the tokens come from; None: not from here.  Raises: ValueError with a sentence."""
    handler = properties.get(LOGIN_HANDLER)
    if handler is None and TOKEN_URL in properties:
        raise ValueError(f"{TOKEN_URL} needs {LOGIN_HANDLER}={ENDPOINT_LOGIN_HANDLER}")
    if handler is None and JAAS not in properties:
        return None
    try:
        if handler is None:
            options = parse_jaas_for(OAUTHBEARER, properties[JAAS])
            return unsecured_source(options, lambda: int(time.time() * 1000))
        if handler != ENDPOINT_LOGIN_HANDLER:
            raise ValueError(
                f"{LOGIN_HANDLER} must be {ENDPOINT_LOGIN_HANDLER}, as no class is ever loaded"
            )
        return _source_at(properties.get(TOKEN_URL, ""), properties)
    except BadOption as error:
        raise ValueError(f"{JAAS}: {error}") from None
    except BadTokenFile as error:
        raise ValueError(f"{TOKEN_URL}: {error}") from None


def _source_at(text: str, properties: Mapping[str, str]) -> TokenSource:
    """Raises: BadTokenFile, ValueError."""
    try:
        url = parse_url(text)
    except ValueError:
        said = "" if "@" in text else f"={text}"  # it may have a password
        raise ValueError(
            f"{TOKEN_URL}{said} must be the URL of a token endpoint (https or http), or of a file"
            " with a token: file:///PATH"
        ) from None
    if url.scheme == "file":
        return file_source(unquote(url.path), properties.get(USER_CLAIM, "sub"))
    from .endpoint_tokens import endpoint_source

    return endpoint_source(properties)


def known_source(properties: Mapping[str, str]) -> TokenSource:
    """The same for properties that have passed `check_login`."""
    source = token_source(properties)
    assert source is not None
    return source


def get_ready(properties: Mapping[str, str]) -> None:
    """Get a token, which may take long, before a client waits for it.  Raises: CommandError."""
    try:
        known_source(properties).new_token()
    except ServerRefused as error:
        raise CommandError(f"this command {error}") from None


def for_kafka_python(properties: Mapping[str, str]) -> Any:
    """What kafka-python's clients ask for tokens."""
    from odradek import token_providers

    source = known_source(properties)
    return token_providers.for_kafka_python(source.new_token, source.extensions)


def for_aiokafka(properties: Mapping[str, str]) -> Any:
    """What aiokafka's clients ask for tokens."""
    from odradek import token_providers

    return token_providers.for_aiokafka(known_source(properties).new_token)


def for_librdkafka(properties: Mapping[str, str]) -> dict[str, object]:
    """The properties by which librdkafka asks for tokens."""
    source = known_source(properties)

    def answer(_: str) -> tuple[str, float, str, dict[str, str]]:
        try:
            token = source.new_token()
        except ServerRefused as error:
            reason = f"this command {error}"
            click.echo(reason, err=True)  # librdkafka only tells that there was an exception
            raise CommandError(reason) from None
        return token, _expires_s(token), source.user, dict(source.extensions)

    return {"oauth_cb": answer}


def _expires_s(token: str) -> float:
    """When librdkafka asks again, at the latest."""
    try:
        found = seconds_of(decode_part(token.split(".")[1], "content"), "exp")
    except (InvalidToken, IndexError):
        found = None
    return time.time() + _UNKNOWN_LIFE_S if found is None else found
