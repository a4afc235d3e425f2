"""Real clients that log in, by each mechanism, with and without TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.broker.running import HOST, RunningBroker, running
from tests.kafka.java import ToolRunner
from tests.support.certificates import Certificates
from tests.support.secrets import PENCIL

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = ("SASL_PLAINTEXT", "SASL_SSL")
PASSWORD = PENCIL
IN_JAAS = PASSWORD.replace('"', '\\"')
JAAS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    f'user_alice="{IN_JAAS}" user_bob="bob";'
)
RECORDS = [b"x" * size for size in (1, 100, 20_000, 300_000)]
Exchange = Callable[[str, str, str, str, str], Awaitable[list[bytes]]]
"""(servers, mechanism, password, topic, authority or "") -> the records that it wrote and read."""


async def kafka_python(
    servers: str, mechanism: str, password: str, topic: str, trust: str
) -> list[bytes]:
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_SSL" if trust else "SASL_PLAINTEXT",
        "ssl_cafile": trust or None,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }

    def talk() -> list[bytes]:
        producer = KafkaProducer(**options)
        for record in RECORDS:
            producer.send(topic, record, partition=0).get(timeout=20)
        producer.close()
        consumer = KafkaConsumer(
            **options, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        )
        consumer.assign([TopicPartition(topic, 0)])
        found = [next(consumer).value for _ in RECORDS]
        consumer.close()
        return found

    return await asyncio.to_thread(talk)


async def confluent(
    servers: str, mechanism: str, password: str, topic: str, trust: str
) -> list[bytes]:
    complaints: list[str] = []
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL" if trust else "SASL_PLAINTEXT",
        **({"ssl.ca.location": trust} if trust else {}),
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        "log_level": 0,
    }

    def complain(error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            complaints.append(error.str())

    def talk() -> list[bytes]:
        producer = Producer({**options, "error_cb": complain})
        for record in RECORDS:
            producer.produce(topic, record, partition=0)
        while len(producer) and not complaints:
            producer.poll(0.05)
        if complaints:
            producer.purge()
            raise PermissionError(complaints[0])
        consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe([topic])
        found = [consumer.poll(20) for _ in RECORDS]
        consumer.close()
        return [message.value() or b"" for message in found if message is not None]

    return await asyncio.to_thread(talk)


async def aio(servers: str, mechanism: str, password: str, topic: str, trust: str) -> list[bytes]:
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SASL_SSL" if trust else "SASL_PLAINTEXT",
        "ssl_context": ssl.create_default_context(cafile=trust) if trust else None,
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
        for record in RECORDS:
            await producer.send_and_wait(topic, record, partition=0)
    except AioKafkaError as error:
        raise PermissionError(str(error)) from error
    finally:
        await producer.stop()
    async with AIOKafkaConsumer(topic, **options, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value or b"" for _ in RECORDS]


@asynccontextmanager
async def serving(
    directory: Path, protocol: str, certificates: Certificates
) -> AsyncIterator[RunningBroker]:
    """A broker on which anybody may make users, on the second listener."""
    settings = {
        "listeners": f"{protocol}://{HOST}:0,PLAINTEXT://{HOST}:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": JAAS,
        "ssl.keystore.location": str(certificates.broker.store),
        "num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "connection.failed.authentication.delay.ms": "0",
    }
    async with running(directory, settings) as broker:
        await asyncio.to_thread(make_users, f"{HOST}:{broker.listeners[1].port}")
        yield broker


def make_users(servers: str) -> None:
    """Have alice know SCRAM, by librdkafka's admin client."""
    admin = AdminClient({"bootstrap.servers": servers})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, 4096)
        asked = UserScramCredentialUpsertion("alice", info, PASSWORD.encode())
        for done in admin.alter_user_scram_credentials([asked]).values():
            done.result(timeout=20)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("exchange", [kafka_python, confluent, aio])
def test_clients_log_in_write_and_read(
    exchange: Exchange,
    protocol: str,
    tmp_path: Path,
    certificates: Certificates,
    odradek_only: None,
) -> None:
    async def main() -> None:
        trust = certificates.trust if protocol == "SASL_SSL" else ""
        async with serving(tmp_path, protocol, certificates) as broker:
            servers = f"{HOST}:{broker.port}"
            for mechanism in MECHANISMS:
                found = await exchange(servers, mechanism, PASSWORD, f"t-{mechanism}", trust)
                assert found == RECORDS

    asyncio.run(main())


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("exchange", [confluent, aio])  # kafka-python tries for 30 s
def test_clients_show_why_they_may_not_log_in(
    exchange: Exchange,
    mechanism: str,
    tmp_path: Path,
    certificates: Certificates,
    caplog: pytest.LogCaptureFixture,
    odradek_only: None,
) -> None:
    shown = "Invalid username or password" if mechanism == "PLAIN" else "invalid credentials"

    async def main() -> None:
        async with serving(tmp_path, "SASL_PLAINTEXT", certificates) as broker:
            with pytest.raises(PermissionError) as refused:
                await exchange(f"{HOST}:{broker.port}", mechanism, "wrong", "t", "")
            assert shown in str(refused.value) + caplog.text  # of the client

    asyncio.run(main())


def test_librdkafka_describes_and_deletes_users(
    tmp_path: Path, certificates: Certificates, odradek_only: None
) -> None:
    def talk(servers: str) -> None:
        admin = AdminClient({"bootstrap.servers": servers})
        everybody = admin.describe_user_scram_credentials().result(timeout=20)
        infos = everybody["alice"].scram_credential_infos
        assert {(info.mechanism, info.iterations) for info in infos} == {
            (ScramMechanism.SCRAM_SHA_256, 4096),
            (ScramMechanism.SCRAM_SHA_512, 4096),
        }
        asked = UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256)
        for done in admin.alter_user_scram_credentials([asked]).values():
            done.result(timeout=20)
        (described,) = admin.describe_user_scram_credentials(["alice"]).values()
        assert len(described.result(timeout=20).scram_credential_infos) == 1

    async def main() -> None:
        async with serving(tmp_path, "SASL_PLAINTEXT", certificates) as broker:
            await asyncio.to_thread(talk, f"{HOST}:{broker.listeners[1].port}")

    asyncio.run(main())


@pytest.mark.java
def test_kafkas_own_tools_make_users_and_log_in(
    tmp_path: Path, certificates: Certificates, tools: ToolRunner, odradek_only: None
) -> None:
    def talk(open_servers: str, servers: str) -> None:
        users = ("ConfigCommand", "--bootstrap-server", open_servers, "--entity-type", "users")
        for mechanism in MECHANISMS[1:]:
            added = f"{mechanism}=[iterations=8192,password=carol]"
            tools.run(*users, "--entity-name", "carol", "--alter", "--add-config", added)
        described = tools.run(*users, "--describe").stdout
        assert "carol" in described
        assert "SCRAM-SHA-512=iterations=8192" in described
        for mechanism in MECHANISMS:
            file = tmp_path / f"{mechanism}.properties"
            module, user = (
                ("scram.Scram", "carol") if "SCRAM" in mechanism else ("plain.Plain", "bob")
            )
            file.write_text(
                f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
                f"sasl.jaas.config=org.apache.kafka.common.security.{module}LoginModule required "
                f'username="{user}" password="{user}";\n'
            )
            topic = ("TopicCommand", "--bootstrap-server", servers, "--command-config", str(file))
            tools.run(*topic, "--create", "--topic", f"java-{mechanism}")
            assert f"java-{mechanism}" in tools.run(*topic, "--list").stdout
        deleted = ("--alter", "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
        tools.run(*users, "--entity-name", "carol", *deleted)
        assert "carol" not in tools.run(*users, "--describe").stdout

    async def main() -> None:
        async with serving(tmp_path, "SASL_PLAINTEXT", certificates) as broker:
            ports = [f"{HOST}:{listener.port}" for listener in broker.listeners]
            await asyncio.to_thread(talk, ports[1], ports[0])

    asyncio.run(main())
