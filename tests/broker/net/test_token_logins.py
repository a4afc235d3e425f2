"""Listeners with OAUTHBEARER: who gets in, for how long, and which settings are refused.

What is answered is compared with Kafka's answers in tests/wire/test_oauthbearer_against_kafka.py.
"""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.net.connection import Connection
from odradek.broker.runtime import SystemClock
from odradek.broker.sasl.oauthbearer import ABORT, ClientFirst
from odradek.broker.server import StartupError
from odradek.broker.settings.sasl import SIGNED_HANDLER, UNSECURED_HANDLER
from odradek.broker.tokens import unsecured
from odradek.broker.tokens.refresh import COOL_DOWN_MS
from odradek.jaas import OAUTHBEARER_MODULE
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from odradek.protocol.messages.k44_incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.awaiting import until
from tests.support.connections import HungUp
from tests.support.tokens import jwk, jwks, signed

from ..requests import metadata
from ..running import HOST, RunningBroker, on_broker, running

TOKENS = "listener.name.sasl_plaintext.oauthbearer"
ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
URL = "sasl.oauthbearer.jwks.endpoint.url"
CHOOSE = SaslHandshakeRequest(mechanism="OAUTHBEARER")
LISTENER = {
    "listeners": f"SASL_PLAINTEXT://{HOST}:0",
    "sasl.enabled.mechanisms": "OAUTHBEARER",
    "connection.failed.authentication.delay.ms": "0",
}


def only(broker: RunningBroker) -> Connection:
    (connection,) = broker.connections._open
    return connection


def unsecured_token(user: str, lifetime_s: int = 60) -> SaslAuthenticateRequest:
    options = {
        "unsecuredLoginStringClaim_sub": user,
        "unsecuredLoginLifetimeSeconds": str(lifetime_s),
    }
    token = unsecured.Login.of(options).token(SystemClock().wall_ms())
    return SaslAuthenticateRequest(auth_bytes=ClientFirst(token).encode())


@on_broker(
    {
        **LISTENER,
        f"{TOKENS}.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
        f"{TOKENS}.sasl.server.callback.handler.class": UNSECURED_HANDLER,
    }
)
async def test_a_token_says_who_a_client_is_and_for_how_long(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    assert (await client.ask(CHOOSE, 1)).error_code == 0
    answer = await client.ask(unsecured_token("alice"), 2)
    assert (answer.error_code, answer.auth_bytes) == (0, b"")
    assert 55_000 < answer.session_lifetime_ms <= 60_000
    assert str(only(broker).principal) == "User:alice"
    await client.ask(metadata(), 9)

    broker.clock.moved_ms += 2_000
    assert (await client.ask(CHOOSE, 1)).error_code == 0
    assert (await client.ask(unsecured_token("alice", 90), 2)).session_lifetime_ms > 80_000
    broker.clock.moved_ms += 90_000
    with pytest.raises(HungUp):
        await client.ask(metadata(), 9)
    assert "the login has expired" in caplog.text

    impatient = await broker.client()
    await impatient.ask(CHOOSE, 1)
    answer = await impatient.ask(unsecured_token("alice", 0), 2)
    assert (answer.error_code, answer.auth_bytes) == (0, b'{"status":"invalid_token"}')
    await impatient.close()
    await until(lambda: "the token is not valid" in caplog.text, "the refusal is logged")


def signed_settings(keys: Path) -> dict[str, str]:
    """Of a broker whose clients show signed tokens."""
    url = f"file://{keys}"
    return {
        **LISTENER,
        f"{TOKENS}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{TOKENS}.{URL}": url,
        f"{TOKENS}.sasl.oauthbearer.expected.audience": "kafka",
        "sasl.oauthbearer.sub.claim.name": "email",
        ALLOWED: f"https://h/,{url}",
    }


async def show(broker: RunningBroker, key: str, **claims: Any) -> SaslAuthenticateResponse:
    """Log in with a token that this key signs."""
    now_s = broker.clock.wall_ms() // 1000
    good = {"email": "alice", "iat": now_s, "exp": now_s + 60, "aud": "kafka"}
    client = await broker.client()
    await client.ask(CHOOSE, 1)
    first = ClientFirst(signed({**good, **claims}, key)).encode()
    answer = await client.ask(SaslAuthenticateRequest(auth_bytes=first), 2)
    if answer.auth_bytes:
        answer = await client.ask(SaslAuthenticateRequest(auth_bytes=ABORT), 2)
    else:
        assert answer.session_lifetime_ms > 0
        await client.ask(metadata(), 9)
        await client.close()
        await until(lambda: not broker.connections, "the connection is forgotten")
    assert isinstance(answer, SaslAuthenticateResponse)
    return answer


def test_signed_tokens_and_the_keys_of_their_issuer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(jwks(jwk("ES256")))

    async def main() -> None:
        async with running(tmp_path / "data", signed_settings(keys)) as broker:
            assert (await show(broker, "ES256")).error_code == 0
            for key, claims, reason in (
                ("ES256", {"aud": "other"}, "audience"),
                ("ES256", {"email": None}, "email is not the name of a user"),
                ("ES256", {"exp": 7, "iat": 5}, "has expired"),
                ("ES256-new", {}, "no key for its header's kid"),
            ):
                refused = await show(broker, key, **claims)
                assert refused.error_code == 58
                assert refused.error_message == '{"status":"invalid_token"}'
                assert reason in caplog.text
            keys.write_bytes(jwks(jwk("ES256-new")))
            broker.clock.moved_ms += COOL_DOWN_MS
            assert (await show(broker, "ES256-new")).error_code == 58  # and has them read again
            await until(lambda: caplog.text.count("keys of tokens read") == 2, "they are read")
            assert (await show(broker, "ES256-new")).error_code == 0
            assert (await show(broker, "ES256")).error_code == 58

    with caplog.at_level("INFO"):
        asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({f"{TOKENS}.{URL}": None}, f"signed tokens need {TOKENS}.{URL}, or {URL}"),
        ({f"{TOKENS}.{URL}": "keys.json"}, f"{TOKENS}.{URL}=keys.json must be a URL with https"),
        ({f"{TOKENS}.{URL}": "https://a..b/"}, f"{TOKENS}.{URL}=https://a..b/ must be a URL with"),
        (
            {f"{TOKENS}.{URL}": "file:///%00"},
            f"{TOKENS}.{URL}=file:///%00 must be a URL with https",
        ),
        ({f"{TOKENS}.{URL}": "https://h"}, f"https://h is not allowed: set {ALLOWED} to a list"),
        ({ALLOWED: None}, f"is not allowed: set {ALLOWED} to a list"),
        ({f"{TOKENS}.{URL}": None, URL: "ftp://h"}, f"{URL}=ftp://h must be a URL"),
        (
            {f"{TOKENS}.{URL}": "file:///none", ALLOWED: "file:///none"},
            "the keys for tokens on the listener SASL_PLAINTEXT cannot be read: file:///none "
            "cannot be read: No such file",
        ),
        (
            {f"{TOKENS}.{URL}": "file:///dev/null", ALLOWED: "file:///dev/null"},
            "file:///dev/null is not a file",
        ),
        (
            {f"{TOKENS}.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required clientId=x;"},
            "clientId has no effect on signed tokens",
        ),
        (
            {
                f"{TOKENS}.{URL}": "https://h/",
                f"{TOKENS}.sasl.jaas.config": (
                    f"{OAUTHBEARER_MODULE} required ssl.truststore.location='/none';"
                ),
            },
            "ssl.truststore.location=/none cannot be read",
        ),
        ({"sasl.oauthbearer.clock.skew.seconds": "-1"}, "seconds=-1 must be at least 0"),
        ({"sasl.oauthbearer.jwks.endpoint.refresh.ms": "0"}, "refresh.ms=0 must be at least 1"),
        ({"sasl.oauthbearer.sub.claim.name": " "}, "sub.claim.name= must not be blank"),
        (
            {f"{TOKENS}.sasl.server.callback.handler.class": None},
            f"{TOKENS}.sasl.oauthbearer.expected.audience has no effect on unsecured tokens",
        ),
    ],
)
def test_a_broker_does_not_start_without_knowing_which_tokens_are_good(
    changes: dict[str, str | None], sentence: str, tmp_path: Path
) -> None:
    keys = tmp_path / "keys.json"
    keys.write_bytes(jwks(jwk("ES256")))
    given: dict[str, Any] = {**signed_settings(keys), **changes}
    assert sentence in refusal(tmp_path, given)


def refusal(directory: Path, given: dict[str, Any]) -> str:
    async def main() -> None:
        settings = {name: text for name, text in given.items() if text is not None}
        async with running(directory / "data", settings):
            raise AssertionError("it has started")

    with pytest.raises(StartupError) as refused:
        asyncio.run(main())
    return str(refused.value)


def test_the_extra_that_signed_tokens_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    monkeypatch.delitem(sys.modules, "odradek.broker.tokens.signed", raising=False)
    said = refusal(tmp_path, signed_settings(tmp_path))
    assert "signed tokens need the package PyJWT: pip install 'odradek[oauth]'" in said


@on_broker(
    {
        "listeners": f"PLAINTEXT://{HOST}:0,SASL_PLAINTEXT://{HOST}:0",
        **{
            f"{TOKENS}.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
        },
    }
)
async def test_no_admin_client_changes_who_may_log_in(broker: RunningBroker) -> None:
    client = await broker.client()
    for name, value in (
        (f"{TOKENS}.{URL}", "http://h/"),
        (f"{TOKENS}.sasl.server.callback.handler.class", SIGNED_HANDLER),
        (URL, "http://h/"),
        (ALLOWED, "http://h/"),
    ):
        config = AlterableConfig(name=name, config_operation=0, value=value)
        own = str(broker.broker_id)
        resource = AlterConfigsResource(resource_type=4, resource_name=own, configs=[config])
        answer = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
        (response,) = answer.responses
        assert "a running broker cannot change" in response.error_message, name
