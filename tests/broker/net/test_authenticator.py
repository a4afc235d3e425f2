"""Listeners with SASL: who gets in, what the others can do, and what is logged of it.

What is answered is compared with Kafka's answers in tests/wire/test_sasl_against_kafka.py.
"""

import asyncio
import logging
import struct
from pathlib import Path
from typing import Any

import pytest

from odradek.broker.net.authenticator import Authenticator
from odradek.broker.net.connection import Connection
from odradek.broker.server import StartupError
from odradek.broker.settings.sasl import UNSECURED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k17_sasl_handshake import SaslHandshakeRequest
from odradek.protocol.messages.k18_api_versions import ApiVersionsRequest
from odradek.protocol.messages.k36_sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tests.support.awaiting import until
from tests.support.certificates import Certificates
from tests.support.client import Client
from tests.support.collecting import nothing_left
from tests.support.connections import HungUp
from tests.support.frames import request_bytes
from tests.support.messages import batch_of

from ..requests import metadata
from ..running import HOST, RunningBroker, on_broker, running
from .tls import trusting

JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'user_alice="alice-secret" user_bob="bob-secret";'
)
PLAIN = "listener.name.sasl_plaintext.plain"
TOKENS = "listener.name.sasl_plaintext.oauthbearer"
SETTINGS = {
    "listeners": f"SASL_PLAINTEXT://{HOST}:0",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    f"{PLAIN}.sasl.jaas.config": JAAS,
    "connection.failed.authentication.delay.ms": "0",
}
GOOD = b"\0alice\0alice-secret"
BAD = b"\0alice\0wrong-secret"
VERSIONS = ApiVersionsRequest(client_software_name="tests", client_software_version="1")


async def log_in(client: Client, token: bytes = GOOD) -> SaslAuthenticateResponse:
    """Choose PLAIN, and send a token."""
    answer = await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert answer.error_code == 0
    found = await client.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
    assert isinstance(found, SaslAuthenticateResponse)
    return found


def only(broker: RunningBroker) -> Connection:
    (connection,) = broker.connections._open
    return connection


@on_broker(SETTINGS)
async def test_a_user_logs_in(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.ask(VERSIONS, 3)
    assert str(only(broker).principal) == "User:ANONYMOUS"
    assert (await log_in(client)).error_code == 0
    assert str(only(broker).principal) == "User:alice"
    await client.create_topic("t")
    assert await client.append("t", batch_of(b"x" * 600_000)) == 0  # larger than before the login


@on_broker(SETTINGS)
@pytest.mark.parametrize("logs_in", [True, False])
async def test_a_closed_connection_leaves_nothing_to_the_collector(
    broker: RunningBroker, logs_in: bool
) -> None:
    async with nothing_left(Connection, Authenticator):
        for _ in range(3):
            client = await broker.client()
            if logs_in:
                await log_in(client)
            client.send_bytes(struct.pack(">i", -1))
            assert await client.is_closed()


@on_broker(SETTINGS)
async def test_requests_may_be_sent_all_at_once(broker: RunningBroker) -> None:
    """Those after the login are handled by a dispatcher, the ones before not."""
    client = await broker.client()
    sent = [
        (client.send(request, version), request, version)
        for request, version in (
            (VERSIONS, 3),
            (SaslHandshakeRequest(mechanism="PLAIN"), 1),
            (SaslAuthenticateRequest(auth_bytes=GOOD), 1),
            (metadata(), 9),
        )
    ]
    for correlation_id, _, _ in sent:
        frame = await client.read_frame()
        assert frame[:4] == struct.pack(">i", correlation_id)


@on_broker(SETTINGS, both=False)
async def test_requests_behind_a_refusal_are_not_handled(broker: RunningBroker) -> None:
    client = await broker.client()
    for request, version in (
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=BAD), 1),
        (SaslAuthenticateRequest(auth_bytes=GOOD), 1),
        (metadata(), 9),
    ):
        client.send(request, version)
    await client.read_frame()
    await client.read_frame()
    assert await client.is_closed()
    assert broker.node.metrics.requests["Metadata"].count == 0


@pytest.mark.parametrize("token", [BAD, b"", b"\0eve\0x", b"bob" + GOOD])
@on_broker(SETTINGS)
async def test_a_refused_client_loses_its_connection(broker: RunningBroker, token: bytes) -> None:
    client = await broker.client()
    answer = await log_in(client, token)
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert await client.is_closed()


@pytest.mark.slow
@on_broker({**SETTINGS, "connection.failed.authentication.delay.ms": "150"})
async def test_a_refusal_is_held_back(broker: RunningBroker) -> None:
    client = await broker.client()
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert (await log_in(client, BAD)).error_code != 0
    assert loop.time() - began >= 0.15


@pytest.mark.slow
@on_broker(SETTINGS, both=False)
async def test_an_answer_that_fails_leaves_no_connection(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, failures = await broker.client(), list[str]()

    def fail(*call: object) -> None:
        raise ValueError("an answer that cannot be encoded")

    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: failures.append(str(context["exception"]))
    )
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    monkeypatch.setattr(Authenticator, "_send", fail)
    client.send(SaslAuthenticateRequest(auth_bytes=BAD), 2)
    assert await client.is_closed()
    assert failures == ["an answer that cannot be encoded"]
    await until(lambda: not broker.connections, "the connection is forgotten")


@on_broker({**SETTINGS, "connection.failed.authentication.delay.ms": "150"})
async def test_nothing_behind_a_wrong_password_shortens_the_delay(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    loop = asyncio.get_running_loop()
    began = loop.time()
    token = request_bytes(SaslAuthenticateRequest(auth_bytes=BAD), 1, 9)
    client.send_bytes(struct.pack(">i", len(token)) + token + b"\xff\xff\xff\xff")
    assert (await client.read_frame())[:4] == struct.pack(">i", 9)
    assert loop.time() - began >= 0.15
    assert await client.is_closed()


@on_broker({**SETTINGS, "connection.failed.authentication.delay.ms": "60000"})
async def test_who_hangs_up_during_the_delay_is_forgotten(broker: RunningBroker) -> None:
    client = await broker.client()
    await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    client.send(SaslAuthenticateRequest(auth_bytes=BAD), 1)
    await until(lambda: bool(only(broker).dispatcher.parked), "the token is refused")
    client.abort()
    await until(lambda: not broker.connections, "the connection is forgotten")


@pytest.mark.slow
@on_broker(
    {
        **SETTINGS,
        "connection.failed.authentication.delay.ms": "300",
        "odradek.authentication.timeout.ms": "150",
    },
    both=False,
)
async def test_who_is_refused_or_gone_is_not_waited_for(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    gone, refused = await broker.client(), await broker.client()
    await gone.close()
    assert (await log_in(refused, BAD)).error_code != 0  # after more than the time for a login
    assert "authentication refused" in caplog.text
    assert "no login within" not in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"\0", b"\0\0\0\x20partly"])
@on_broker({**SETTINGS, "odradek.authentication.timeout.ms": "100"})
async def test_who_does_not_log_in_in_time_loses_the_connection(
    broker: RunningBroker, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    client.send_bytes(sent)
    assert await client.is_closed()
    assert "no login within 100 ms" in caplog.text


@pytest.mark.slow
@on_broker({**SETTINGS, "odradek.authentication.timeout.ms": "100"}, both=False)
async def test_the_time_ends_with_the_login(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client, slow = await broker.client(), await broker.client()
    await log_in(client)
    assert await slow.is_closed()  # which began later
    await client.ask(metadata(), 9)


@on_broker({**SETTINGS, "sasl.server.max.receive.size": "100"})
async def test_a_large_frame_is_not_received_before_the_login(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    client = await broker.client()
    client.send_bytes(struct.pack(">i", 101))
    assert await client.is_closed()
    assert "frame of 101 bytes, allowed are 100" in caplog.text
    assert broker.connections.budget.used_bytes == 0
    other = await broker.client()
    await log_in(other)
    await other.ask(metadata("t" * 200), 9)


@on_broker(SETTINGS, both=False)
async def test_a_refusal_is_logged_without_secrets_and_forged_lines(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    await log_in(await broker.client(), BAD)
    forged = "eve\nWARNING all is well\u202e".encode()
    await log_in(await broker.client(), b"\0" + forged + b"\0hidden")
    await (await broker.client()).ask(SaslHandshakeRequest(mechanism="X\n" * 100), 1)
    lines = [record.getMessage() for record in caplog.records if "refused" in record.getMessage()]
    assert lines == [
        f"authentication refused peer={HOST} listener=SASL_PLAINTEXT mechanism='PLAIN' "
        "user='alice' reason=wrong password",
        f"authentication refused peer={HOST} listener=SASL_PLAINTEXT mechanism='PLAIN' "
        "user='eve\\nWARNING all is well\\u202e' reason=unknown user",
        f"authentication refused peer={HOST} listener=SASL_PLAINTEXT "
        "mechanism='X"
        + ("\\nX" * 100)[:48]
        + " user='' reason=the listener does not offer this mechanism",
    ]
    assert "secret" not in caplog.text
    assert "hidden" not in caplog.text


@on_broker({**SETTINGS, "connections.max.reauth.ms": "60000"})
async def test_a_login_expires_unless_it_is_renewed(broker: RunningBroker) -> None:
    client, other = await broker.client(), await broker.client()
    for each in (client, other):
        assert (await log_in(each)).session_lifetime_ms == 60_000
    broker.clock.moved_ms += 50_000
    assert (await log_in(client)).session_lifetime_ms == 60_000
    broker.clock.moved_ms += 11_000
    await client.ask(metadata(), 9)
    with pytest.raises(HungUp):
        await other.ask(metadata(), 9)


@on_broker({**SETTINGS, "connections.max.reauth.ms": "60000"}, both=False)
async def test_who_renews_a_login_badly_loses_the_connection(broker: RunningBroker) -> None:
    for token in (BAD, b"\0bob\0bob-secret"):
        client = await broker.client()
        await log_in(client)
        assert (await log_in(client, token)).error_code != 0
        assert await client.is_closed()


@on_broker(SETTINGS, both=False)
async def test_a_broker_stops_with_logins_open(broker: RunningBroker) -> None:
    for token in (GOOD, b"\0alice"):
        client = await broker.client()
        await client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        client.send(SaslAuthenticateRequest(auth_bytes=token), 1)
    await broker.client()
    await broker.stop()


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["", "listener.name.sasl_ssl."])
def test_a_login_over_tls_names_the_client_whatever_its_certificate(
    prefix: str, tmp_path: Path, certificates: Certificates
) -> None:
    """Only with the listener's prefix does it ask for certificates, too."""
    settings = {
        **SETTINGS,
        "listeners": f"SASL_SSL://{HOST}:0",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.location": str(certificates.broker.store),
        "ssl.truststore.location": certificates.trust,
        f"{prefix}ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=nobody$/nobody/",
    }

    async def main() -> None:
        async with running(tmp_path, settings) as broker:
            for issued in (certificates.alice,) if prefix else (certificates.alice, None):
                client = await broker.client(ssl=trusting(certificates, issued))
                with pytest.raises(HungUp):
                    await client.ask(metadata(), 9)
                client = await broker.client(ssl=trusting(certificates, issued))
                await log_in(client, b"\0bob\0bob-secret")
                await client.ask(metadata(), 9)
                names = {str(each.principal) for each in broker.connections._open}
                assert names == {"User:bob"}
                await client.close()
                await until(lambda: not broker.connections, "the connection is forgotten")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sasl.enabled.mechanisms": None}, "Kafka's default, GSSAPI, is not built"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "GSSAPI is not built"),
        ({"sasl.enabled.mechanisms": "plain"}, "plain is not built"),
        ({"sasl.enabled.mechanisms": ""}, "it is empty"),
        (
            {"listener.name.sasl_plaintext.sasl.enabled.mechanisms": "GSSAPI"},
            "listener.name.sasl_plaintext.sasl.enabled.mechanisms=GSSAPI",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER"},
            "no setting says which tokens are accepted",
        ),
        (
            {"sasl.enabled.mechanisms": "OAUTHBEARER", f"{TOKENS}.sasl.jaas.config": "a"},
            f"{TOKENS}.sasl.jaas.config",
        ),
        (
            {
                "sasl.enabled.mechanisms": "OAUTHBEARER",
                f"{TOKENS}.sasl.jaas.config": f'{OAUTHBEARER_MODULE} required username="x";',
            },
            "username is not an option of unsecured tokens",
        ),
        (
            {f"{PLAIN}.sasl.server.callback.handler.class": UNSECURED_HANDLER},
            "only OAUTHBEARER has such classes",
        ),
        ({f"{PLAIN}.sasl.jaas.config": None}, f"set {PLAIN}.sasl.jaas.config to"),
        ({f"{PLAIN}.sasl.jaas.config": "hunter2"}, f"{PLAIN}.sasl.jaas.config"),
        (
            {f"{PLAIN}.sasl.jaas.config": "com.example.Login required;"},
            "a login module that is not known here",
        ),
        (
            {
                f"{PLAIN}.sasl.jaas.config": "org.apache.kafka.common.security.scram."
                "ScramLoginModule required;"
            },
            "but PLAIN needs",
        ),
    ],
)
def test_a_broker_does_not_start_without_knowing_who_may_log_in(
    changes: dict[str, str | None], sentence: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {**SETTINGS, **changes}
    settings = {name: text for name, text in given.items() if text is not None}

    async def main() -> None:
        async with running(tmp_path, settings):
            raise AssertionError("it has started")

    with pytest.raises(StartupError, match="sasl") as refused:
        asyncio.run(main())
    assert sentence in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_users_of_plain_may_be_those_of_all_listeners(tmp_path: Path) -> None:
    settings = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:0",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "sasl.jaas.config": JAAS,
    }

    async def main() -> None:
        async with running(tmp_path, settings) as broker:
            assert (await log_in(await broker.client())).error_code == 0

    asyncio.run(main())


@pytest.mark.slow
@on_broker(SETTINGS)
async def test_no_random_bytes_log_in(broker: RunningBroker) -> None:
    """Frames in random order, with good and random tokens in place of good ones."""
    from random import Random

    random = Random(5)
    frames = [
        request_bytes(VERSIONS, 3),
        request_bytes(SaslHandshakeRequest(mechanism="PLAIN"), 1),
        request_bytes(SaslHandshakeRequest(mechanism="SCRAM-SHA-256"), 0),
        request_bytes(SaslAuthenticateRequest(auth_bytes=BAD), 2),
        request_bytes(SaslAuthenticateRequest(auth_bytes=b"n,,n=alice,r=x"), 2),
        request_bytes(metadata(), 9),
    ]
    for _ in range(150):
        client = await broker.client()
        for frame in random.choices(frames, k=4):
            changed = bytearray(frame)
            if random.random() < 0.5:
                changed[random.randrange(len(changed))] = random.randrange(256)
            client.send_frame(bytes(changed))
        client.writer.write_eof()
        while True:
            try:
                await client.read_frame()
            except HungUp:
                break
    assert broker.node.metrics.requests["Metadata"].count == 0
