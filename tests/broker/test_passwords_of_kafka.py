"""Passwords that Kafka has stored in ZooKeeper, and those that it finds there."""

import asyncio
import socket
import ssl
from pathlib import Path

import pytest

from tests.kafka.apache import Kafka39
from tests.kafka.java import run_tool
from tests.kafka.process import free_port
from tests.support.certificates import Certificates
from tests.support.client import Client

from .requests import change_configs, metadata
from .running import HOST, running
from .test_certificates import BROKER, KEYSTORE, PASSWORD, SET, pkcs12

pytestmark = pytest.mark.java


def test_kafka_and_this_broker_read_each_other_s(
    tmp_path: Path, certificates: Certificates
) -> None:
    """The store has the password of Kafka's tool first, then one of ours, which Kafka reads."""
    first = pkcs12(certificates.broker, tmp_path / "first.p12", "hunter2")
    second = pkcs12(certificates.broker, tmp_path / "second.p12", "hunter3")
    port = free_port()
    kafka = Kafka39(tmp_path / "kafka", {"password.encoder.secret": "top"}, heap_mb=384)
    kafka.settings |= {
        "listeners": f"PLAINTEXT://{HOST}:{kafka.port},SSL://{HOST}:{port}",
        f"{KEYSTORE.removesuffix('location')}type": "PKCS12",
    }
    ours = {
        "broker.id": "0",
        "zookeeper.connect": kafka.zookeeper,
        "listeners": f"SSL://{HOST}:0,PLAINTEXT://{HOST}:0",
        "inter.broker.listener.name": "PLAINTEXT",
        "password.encoder.secret": "top",
    }

    async def serve() -> None:
        async with running(tmp_path, ours) as broker:
            context = ssl.create_default_context(cafile=certificates.trust)
            client = await broker.client(ssl=context)
            await client.ask(metadata(), 12)
            changes = ((KEYSTORE, SET, second), (PASSWORD, SET, "hunter3"))
            async with await Client.connect(broker.listeners[1].port) as admin:
                (answer,) = (await admin.ask(change_configs(BROKER, "0", *changes), 1)).responses
            assert answer.error_message is None

    try:
        kafka.start_zookeeper()
        given = f"{KEYSTORE}={first},{PASSWORD}=hunter2,password.encoder.secret=top"
        entity = ("--entity-type", "brokers", "--entity-name", "0")
        where = ("--zookeeper", kafka.zookeeper)
        run_tool("3.9.2", "ConfigCommand", *where, *entity, "--alter", "--add-config", given)
        asyncio.run(serve())
        kafka.start()
        context = ssl.create_default_context(cafile=certificates.trust)
        with context.wrap_socket(
            socket.create_connection((HOST, port)), server_hostname=HOST
        ) as to:
            assert to.version()
    finally:
        kafka.close()
