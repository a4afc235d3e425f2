"""Real clients over TLS, with and without a certificate of their own."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from odradek.broker.access import answer_of
from odradek.broker.handlers import Answer, Api
from odradek.broker.net.call import Call
from odradek.broker.node import Node
from tests.broker.running import HOST, running
from tests.support.certificates import Certificates, Issued

RECORDS = [b"x" * size for size in (1, 100, 20_000, 300_000)]
Exchange = Callable[[str, Certificates, Issued | None], Awaitable[list[bytes]]]


async def kafka_python(servers: str, made: Certificates, client: Issued | None) -> list[bytes]:
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SSL",
        "ssl_cafile": made.trust,
    }
    if client is not None:
        options |= {"ssl_certfile": str(client.certificate), "ssl_keyfile": str(client.key)}

    def talk() -> list[bytes]:
        producer = KafkaProducer(**options)
        for record in RECORDS:
            producer.send("t", record, partition=0).get(timeout=20)
        producer.close()
        consumer = KafkaConsumer(
            **options, auto_offset_reset="earliest", consumer_timeout_ms=20_000
        )
        consumer.assign([TopicPartition("t", 0)])
        found = [next(consumer).value for _ in RECORDS]
        consumer.close()
        return found

    return await asyncio.to_thread(talk)


async def confluent(servers: str, made: Certificates, client: Issued | None) -> list[bytes]:
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SSL",
        "ssl.ca.location": made.trust,
    }
    if client is not None:
        options |= {
            "ssl.certificate.location": str(client.certificate),
            "ssl.key.location": str(client.key),
        }

    def talk() -> list[bytes]:
        producer = Producer(options)
        for record in RECORDS:
            producer.produce("t", record, partition=0)
        assert producer.flush(20) == 0
        consumer = Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        found = [consumer.poll(20) for _ in RECORDS]
        consumer.close()
        return [message.value() for message in found if message is not None]

    return await asyncio.to_thread(talk)


async def aio(servers: str, made: Certificates, client: Issued | None) -> list[bytes]:
    context = ssl.create_default_context(cafile=made.trust)
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    options: dict[str, Any] = {
        "bootstrap_servers": servers,
        "security_protocol": "SSL",
        "ssl_context": context,
    }
    async with AIOKafkaProducer(**options) as producer:
        for record in RECORDS:
            await producer.send_and_wait("t", record, partition=0)
    async with AIOKafkaConsumer("t", **options, auto_offset_reset="earliest") as consumer:
        return [(await consumer.getone()).value for _ in RECORDS]


class Noting:
    """Notes who sends requests.

    Connections without any don't count: a client that stops may hang up within a handshake.
    """

    def __init__(self, seen: set[str]) -> None:
        self._seen = seen

    def answer(self, api: Api, request: Any, call: Call, node: Node, frame: memoryview) -> Answer:
        self._seen.add(str(call.client.principal))
        return answer_of(api, request, call, node)


@pytest.mark.parametrize("auth", ["none", "required"])
@pytest.mark.parametrize("exchange", [kafka_python, confluent, aio])
def test_clients_write_and_read(
    exchange: Exchange, auth: str, tmp_path: Path, certificates: Certificates, odradek_only: None
) -> None:
    seen: set[str] = set()

    async def main() -> None:
        settings = {
            "listeners": f"SSL://{HOST}:0",
            "ssl.keystore.location": str(certificates.broker.store),
            "ssl.truststore.location": certificates.trust,
            "ssl.client.auth": auth,
            "num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        async with running(tmp_path, settings) as broker:
            broker.node.interceptor = Noting(seen)  # type: ignore[assignment]
            client = certificates.alice if auth == "required" else None
            found = await exchange(f"{HOST}:{broker.port}", certificates, client)
            assert found == RECORDS

    asyncio.run(main())
    alice = "User:CN=alice,OU=Readers,O=Example\\, Inc."
    assert seen == {alice if auth == "required" else "User:ANONYMOUS"}
