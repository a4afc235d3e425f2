"""Real clients that get tokens from an identity provider, whose keys the broker trusts."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER, SIGNED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.broker.running import HOST, RunningBroker, running
from tests.cli.conftest import PATIENTLY, run_odradek
from tests.kafka.java import run_tool
from tests.support.identity_provider import IdentityProvider, serving
from tests.support.secrets import HUNTER2

ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
SECRET = HUNTER2


@pytest.fixture
def provider() -> Iterator[IdentityProvider]:
    found = IdentityProvider({"alice": SECRET})
    with serving(found):
        yield found


def properties(provider: IdentityProvider, secret: str = SECRET) -> str:
    """Those of a Java client."""
    login = f'{OAUTHBEARER_MODULE} required clientId="alice" clientSecret="{secret}" scope="a b"'
    return (
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f"sasl.login.callback.handler.class={ENDPOINT_LOGIN_HANDLER}\n"
        f"sasl.oauthbearer.token.endpoint.url={provider.token_url}\n"
        f'sasl.jaas.config={login} extension_trace="7";\n'
    )


@asynccontextmanager
async def broker_with(provider: IdentityProvider, directory: Path) -> AsyncIterator[RunningBroker]:
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    settings = {
        "listeners": f"SASL_PLAINTEXT://{HOST}:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        f"{prefix}.sasl.oauthbearer.jwks.endpoint.url": provider.keys_url,
        f"{prefix}.sasl.oauthbearer.expected.audience": "kafka",
        ALLOWED: provider.keys_url,
        "num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
    }
    async with running(directory / "data", settings) as broker:
        yield broker


def try_with(provider: IdentityProvider, directory: Path, talk: Callable[[str], None]) -> None:
    """Let clients talk to a broker, whose address they get."""

    async def main() -> None:
        async with broker_with(provider, directory) as broker:
            await asyncio.to_thread(talk, f"{HOST}:{broker.listeners[0].port}")

    asyncio.run(main())


@pytest.mark.slow
def test_librdkafka(provider: IdentityProvider, tmp_path: Path, odradek_only: None) -> None:
    def talk(servers: str) -> None:
        options: dict[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "alice",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.token.endpoint.url": provider.token_url,
        }
        refused: list[KafkaError] = []
        producer = Producer({**options, "error_cb": refused.append})
        producer.produce("t", b"one", partition=0)
        assert producer.flush(20) == 0 and refused == []
        consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        message = consumer.poll(20)
        consumer.close()
        assert message is not None and message.value() == b"one"

    try_with(provider, tmp_path, talk)


@pytest.mark.java
def test_kafkas_own_tools_and_ours(
    provider: IdentityProvider, tmp_path: Path, odradek_only: None
) -> None:
    """They take the same file, and ask for tokens in the same way."""
    file = tmp_path / "client.properties"
    file.write_text(properties(provider))

    def talk(servers: str) -> None:
        connected = ("--bootstrap-server", servers, "--topic", "t")
        written = ("ConsoleProducer", *connected, "--producer.config", str(file))
        allowed = [f"-D{ALLOWED}={provider.token_url}"]
        run_tool("3.9.2", *written, stdin=b"one\n", jvm_options=allowed)
        where = (*PATIENTLY, "-b", servers, "-F", str(file))
        consumed = run_odradek("consume", "t", "-n", "1", "-o", "earliest", *where)
        assert b"one" in consumed.stdout, consumed.stderr
        listed = run_odradek("topics", "list", *where)
        assert b"t" in listed.stdout.split(), listed.stderr

    try_with(provider, tmp_path, talk)
    java, *ours = provider.asked
    assert java.form == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    assert [asked.form for asked in ours] == [java.form] * 2
    for name in ("authorization", "content-type", "content-length", "cache-control", "accept"):
        assert {asked.headers[name] for asked in ours} == {java.headers[name]}
