"""Brokers that log in to each other with tokens from a token endpoint."""

import asyncio
import logging
import ssl
from collections.abc import Iterator

import pytest

from odradek.broker.config import Config, ConfigError
from odradek.broker.peers.security import load_securities
from odradek.broker.runtime import Runtime
from odradek.broker.sasl.broker_credentials import check_credentials
from odradek.broker.sasl.client import Credentials, ServerRefused
from odradek.broker.sasl.credentials import ScramUsers
from odradek.broker.sasl.oauthbearer import ClientFirst
from odradek.broker.sasl.offers import make_offer
from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER, SIGNED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.support.certificates import Certificates
from tests.support.identity_provider import IdentityProvider, serving

PREFIX = "listener.name.sasl_plaintext.oauthbearer."
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
URL = "sasl.oauthbearer.token.endpoint.url"
OPTIONS = 'clientId="broker" clientSecret="hunter2" scope="kafka" extension_cluster="one"'


def settings_for(provider: IdentityProvider, options: str = OPTIONS, **more: str) -> dict[str, str]:
    """A broker that trusts a provider's tokens, and gets its own there."""
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "zookeeper.connect": "zk:2181",
        ALLOWED: f"{provider.keys_url},{provider.token_url}",
        f"{PREFIX}sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka",
        f"{PREFIX}sasl.login.callback.handler.class": ENDPOINT_LOGIN_HANDLER,
        f"{PREFIX}{URL}": provider.token_url,
        f"{PREFIX}sasl.jaas.config": f"{OAUTHBEARER_MODULE} required {options};",
        f"{PREFIX}sasl.login.retry.backoff.max.ms": "0",
        **{f"{PREFIX}{name}": text for name, text in more.items()},
    }


def loaded(settings: dict[str, str]) -> Credentials:
    securities = load_securities(Config(settings), {}, Runtime.system())
    credentials = securities["SASL_PLAINTEXT"].credentials
    assert credentials is not None
    return credentials


async def begun(credentials: Credentials) -> bytes:
    """The first message of a login."""
    return (await credentials.begin()).first()


async def check(settings: dict[str, str]) -> None:
    """As a broker does when it starts."""
    given = Config(settings).listener_sasl("SASL_PLAINTEXT")
    assert given is not None
    offer = make_offer(given, ScramUsers(), b"cluster", Runtime.system())
    if offer.keys is not None:
        await offer.keys.read()
    await check_credentials(loaded(settings), offer.mechanisms["OAUTHBEARER"], "SASL_PLAINTEXT")


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    found = IdentityProvider({"broker": "hunter2"})
    with serving(found):
        yield found


def test_a_broker_is_let_in_by_itself(provider: IdentityProvider) -> None:
    asyncio.run(check(settings_for(provider)))
    (asked,) = provider.asked
    assert (asked.client_id, asked.form["scope"]) == ("broker", ["kafka"])


def test_extensions_go_with_the_token(provider: IdentityProvider) -> None:
    message = ClientFirst.parse(asyncio.run(begun(loaded(settings_for(provider)))))
    assert message.extensions == {"cluster": "one"}


def test_a_listener_for_unsecured_tokens(provider: IdentityProvider) -> None:
    """The options for the login are none of its own."""
    settings = settings_for(provider)
    for name in ("server.callback.handler.class", "oauthbearer.expected.audience"):
        del settings[f"{PREFIX}sasl.{name}"]
    del settings[f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url"]
    with pytest.raises(ConfigError, match="it is signed, and the listener is for unsecured tokens"):
        asyncio.run(check(settings))


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, r"oauthbearer.token.endpoint.url=http://127.0.0.1:\d+/token answers with status 401"),
        (503, r"oauthbearer.token.endpoint.url=http://127.0.0.1:\d+/token answers with status 503"),
        (200, "answers without an access_token"),
    ],
)
def test_without_a_token_no_broker_starts(
    provider: IdentityProvider, status: int, reason: str
) -> None:
    provider.answers.extend([(status, b"hunter2")] * 10)
    with pytest.raises(
        ConfigError, match=f"cannot log in to others by .*: it gets no.*{reason}"
    ) as e:
        asyncio.run(check(settings_for(provider)))
    assert "hunter2" not in str(e.value)


def test_a_token_that_the_brokers_refuse(provider: IdentityProvider) -> None:
    provider.audience = "others"
    with pytest.raises(ConfigError, match=r"would not let this one log in as 'broker' .*audience"):
        asyncio.run(check(settings_for(provider)))


def test_what_fails_for_a_moment(provider: IdentityProvider) -> None:
    provider.answers.extend([(503, b""), (429, b"")])
    more = {"sasl.login.retry.backoff.ms": "1", "sasl.login.retry.backoff.max.ms": "5000"}
    asyncio.run(check(settings_for(provider, **more)))
    assert len(provider.asked) == 3


def test_over_tls(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.broker.store)
    provider = IdentityProvider({"broker": "hunter2"})
    with serving(provider, context):
        trusting = f'{OPTIONS} ssl.truststore.location="{certificates.trust}"'
        asyncio.run(check(settings_for(provider, trusting)))
        assert "use https" not in caplog.text
        with pytest.raises(ServerRefused, match="has a certificate that is refused"):
            asyncio.run(begun(loaded(settings_for(provider))))


def test_plain_http_is_warned_about(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"{provider.token_url}?key=hunter2"
    loaded({**settings_for(provider, **{URL: url}), ALLOWED: url})
    assert f"{PREFIX}{URL}={provider.token_url}: who is between sees the" in caplog.text
    assert "hunter2" not in caplog.text


def test_no_log_line_has_the_secret(
    provider: IdentityProvider, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    asyncio.run(check(settings_for(provider)))
    assert "token renewed" in caplog.text
    assert "hunter2" not in caplog.text and "Basic" not in caplog.text


@pytest.mark.parametrize(
    ("options", "more", "sentence"),
    [
        ('clientSecret="hunter2"', {}, "clientId must be set"),
        ("clientId=broker", {}, "clientSecret must be set"),
        (f"{OPTIONS} extension_auth=x", {}, "extension_auth is not allowed"),
        (f"{OPTIONS} extension_a='ü'", {}, "extension_a is not allowed"),
        (OPTIONS, {URL: "https://h/"}, rf"https://h/ is not allowed: set {ALLOWED}"),
        (OPTIONS, {URL: "ftp://h/"}, "must be the URL of a token endpoint"),
        (OPTIONS, {URL: "https://u:hunter2@h/"}, "must be the URL of a token endpoint"),
        (OPTIONS, {"sasl.login.connect.timeout.ms": "0"}, "must be .* at least 1"),
        (OPTIONS, {"sasl.login.refresh.window.factor": "0.4"}, "from 0.5 to 1"),
        (OPTIONS, {"sasl.login.refresh.window.jitter": "0.3"}, "from 0.0 to 0.25"),
        (OPTIONS, {"sasl.login.refresh.min.period.seconds": "901"}, "from 0 to 900"),
        (OPTIONS, {"sasl.login.refresh.buffer.seconds": "-1"}, "from 0 to 3600"),
    ],
)
def test_settings_that_are_refused(
    provider: IdentityProvider, options: str, more: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigError, match=sentence) as error:
        loaded(settings_for(provider, options, **more))
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("name", ["clientId", "scope", "extension_a"])
def test_options_for_a_login_that_there_is_not(provider: IdentityProvider, name: str) -> None:
    settings = settings_for(provider, f"unsecuredLoginStringClaim_sub=broker {name}=x")
    del settings[f"{PREFIX}sasl.login.callback.handler.class"]
    given = Config(settings).listener_sasl("SASL_PLAINTEXT")
    assert given is not None
    with pytest.raises(ConfigError, match=f"{name} has no effect"):
        make_offer(given, ScramUsers(), b"cluster", Runtime.system())
