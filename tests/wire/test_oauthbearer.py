"""Real clients that log in with tokens, signed ones and Kafka's unsecured ones."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider

from odradek.broker.settings.sasl import ENDPOINT_LOGIN_HANDLER, SIGNED_HANDLER
from odradek.jaas import OAUTHBEARER_MODULE
from tests.broker.running import HOST, RunningBroker, running
from tests.cli.conftest import PATIENTLY, run_odradek
from tests.kafka.java import run_tool
from tests.support.tokens import jwk, jwks, signed, unsigned

RECORDS = [b"x" * size for size in (1, 20_000)]
SIGNED = "listener.name.signed.oauthbearer"
TokenOf = Callable[[], str]
Exchange = Callable[[str, TokenOf], Awaitable[list[bytes]]]
"""(servers, what makes a token) -> the records that a client wrote and read."""


def claims(**more: Any) -> dict[str, Any]:
    now_s = int(time.time())
    return {"sub": "alice", "iat": now_s, "exp": now_s + 60, "aud": "kafka", **more}


async def kafka_python(servers: str, token_of: TokenOf) -> list[bytes]:
    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token_of()

    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }

    def talk() -> list[bytes]:
        producer = KafkaProducer(**options)
        for record in RECORDS:
            producer.send("t", record, partition=0).get(timeout=20)
        producer.close()
        earliest = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
        consumer = KafkaConsumer(**options, **earliest)
        consumer.assign([TopicPartition("t", 0)])
        found = [next(consumer).value for _ in RECORDS]
        consumer.close()
        return found

    return await asyncio.to_thread(talk)


async def aio(servers: str, token_of: TokenOf) -> list[bytes]:
    class Provider(AioTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return token_of()

    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauth_token_provider": Provider(),
    }
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
        for record in RECORDS:
            await producer.send_and_wait("t", record, partition=0)
    except AioKafkaError as error:
        raise PermissionError(str(error)) from error
    finally:
        await producer.stop()
    async with AIOKafkaConsumer("t", **options, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value or b"" for _ in RECORDS]


async def confluent(servers: str, token_of: TokenOf) -> list[bytes]:
    given = {"oauth_cb": lambda _: (token_of(), time.time() + 60)}
    return await asyncio.to_thread(_confluent, servers, given)


def _confluent(servers: str, given: dict[str, Any]) -> list[bytes]:
    complaints: list[str] = []

    def complain(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            complaints.append(error.str())

    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "log_level": 0,
        **given,
    }
    producer = Producer({**options, "error_cb": complain})
    for record in RECORDS:
        producer.produce("t", record, partition=0)
    while len(producer) and not complaints:
        producer.poll(0.05)
    if complaints:
        producer.purge()
        raise PermissionError(complaints[0])
    consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    found = [consumer.poll(20) for _ in RECORDS]
    consumer.close()
    return [message.value() or b"" for message in found if message is not None]


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[RunningBroker]:
    """A broker with a listener for signed tokens, and one for unsecured ones."""
    keys = directory / "keys.json"
    keys.write_bytes(jwks(jwk("RS256")))
    url = f"file://{keys}"
    settings = {
        "listeners": f"SIGNED://{HOST}:0,UNSECURED://{HOST}:0,PLAINTEXT://{HOST}:0",
        "listener.security.protocol.map": "SIGNED:SASL_PLAINTEXT,UNSECURED:SASL_PLAINTEXT,"
        "PLAINTEXT:PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{SIGNED}.sasl.server.callback.handler.class": SIGNED_HANDLER,
        "listener.name.unsecured.oauthbearer.sasl.jaas.config": f"{OAUTHBEARER_MODULE} required;",
        f"{SIGNED}.sasl.oauthbearer.jwks.endpoint.url": url,
        f"{SIGNED}.sasl.oauthbearer.expected.audience": "kafka",
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": url,
        "num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
    }
    async with running(directory / "data", settings) as broker:
        yield broker


@pytest.mark.parametrize("exchange", [kafka_python, confluent, aio])
def test_clients_log_in_with_tokens(exchange: Exchange, tmp_path: Path, odradek_only: None) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            for listener, token_of in (
                (0, lambda: signed(claims(), "RS256")),
                (1, lambda: unsigned(claims())),
            ):
                servers = f"{HOST}:{broker.listeners[listener].port}"
                assert (await exchange(servers, token_of))[: len(RECORDS)] == RECORDS

    asyncio.run(main())


@pytest.mark.parametrize("exchange", [confluent, aio])  # kafka-python tries for 30 s
def test_clients_with_bad_tokens_are_refused(
    exchange: Exchange, tmp_path: Path, odradek_only: None, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        async with serving(tmp_path) as broker:
            with pytest.raises(PermissionError):
                await exchange(
                    f"{HOST}:{broker.listeners[0].port}",
                    lambda: signed(claims(aud="others"), "RS256"),
                )
            assert "its audience (aud) is not an expected one" in caplog.text

    asyncio.run(main())


def test_librdkafkas_own_unsecured_tokens(tmp_path: Path, odradek_only: None) -> None:
    given = {
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=alice",
    }

    async def main() -> None:
        async with serving(tmp_path) as broker:
            servers = f"{HOST}:{broker.listeners[1].port}"
            assert await asyncio.to_thread(_confluent, servers, given) == RECORDS

    asyncio.run(main())


@pytest.mark.java
def test_kafkas_own_tools_log_in_with_unsecured_tokens(tmp_path: Path, odradek_only: None) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
        f'sasl.jaas.config={OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice" '
        'unsecuredLoginExtension_trace="7";\n'
    )

    def talk(servers: str) -> None:
        connected = ("--bootstrap-server", servers, "--topic", "java")
        written = ("ConsoleProducer", *connected, "--producer.config", str(file))
        run_tool("3.9.2", *written, stdin=b"one\ntwo\n")
        read = ("ConsoleConsumer", *connected, "--consumer.config", str(file))
        found = run_tool("3.9.2", *read, "--from-beginning", "--max-messages", "2")
        assert found.stdout.split() == ["one", "two"]

    async def main() -> None:
        async with serving(tmp_path) as broker:
            await asyncio.to_thread(talk, f"{HOST}:{broker.listeners[1].port}")

    asyncio.run(main())


@pytest.mark.slow
def test_our_own_commands_log_in_with_tokens(tmp_path: Path, odradek_only: None) -> None:
    file, token = tmp_path / "client.properties", tmp_path / "token"
    token.write_text(signed(claims(), "RS256"))
    common = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=OAUTHBEARER\n"
    from_file = (
        f"sasl.login.callback.handler.class={ENDPOINT_LOGIN_HANDLER}\n"
        f"sasl.oauthbearer.token.endpoint.url=file://{token}\n"
    )
    login = f'{OAUTHBEARER_MODULE} required unsecuredLoginStringClaim_sub="alice";'

    def talk(servers: str) -> None:
        file.write_text(common + from_file)
        where = (*PATIENTLY, "-b", servers, "-F", str(file))
        assert run_odradek("produce", "t", *where, stdin=b"one\n").returncode == 0
        consumed = run_odradek("consume", "t", "-n", "1", "-o", "earliest", *where)
        assert b"one" in consumed.stdout, consumed.stderr

    def refused(servers: str) -> None:
        token.write_text(signed(claims(aud="others"), "RS256"))
        file.write_text(common + from_file)
        said = run_odradek("topics", "list", *PATIENTLY, "-b", servers, "-F", str(file))
        assert said.returncode == 1
        assert b'refuses the login: {"status":"invalid_token"}' in said.stderr

    async def main() -> None:
        async with serving(tmp_path) as broker:
            signing, unsecured = (f"{HOST}:{broker.listeners[at].port}" for at in (0, 1))
            await asyncio.to_thread(talk, signing)
            file.write_text(f"{common}sasl.jaas.config={login}\n")
            where = (*PATIENTLY, "-b", unsecured, "-F", str(file))
            listed = await asyncio.to_thread(run_odradek, "topics", "list", *where)
            assert b"t" in listed.stdout.split()
            await asyncio.to_thread(refused, signing)

    asyncio.run(main())
