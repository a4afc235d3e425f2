"""Kafka's kafka-acls, and clients that log in and may do what it has allowed."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.broker.running import HOST, running
from tests.kafka.java import ToolRunner

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SETTINGS = {
    "listeners": f"SASL_PLAINTEXT://{HOST}:0,PLAINTEXT://{HOST}:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{MODULE} required user_alice="alice-pass";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "group.initial.rebalance.delay.ms": "0",
}
TIMEOUT_S = 30.0


class Alice:
    """A user with a password."""

    def __init__(self, servers: str) -> None:
        self.options: dict[str, Any] = {
            "bootstrap.servers": servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "alice",
            "sasl.password": "alice-pass",
            "log_level": 0,
        }

    def write(self, topic: str) -> int:
        """The error code of one record; 0: it is written."""
        codes: list[int] = []
        producer = Producer({**self.options, "message.timeout.ms": 20_000})
        producer.produce(
            topic,
            b"v",
            partition=0,
            on_delivery=lambda error, _: codes.append(error.code() if error else 0),
        )
        producer.flush(TIMEOUT_S)
        return codes[0]

    def read(self, topic: str, group_id: str) -> int:
        """The same for a consumer in a group."""
        consumer = Consumer({**self.options, "group.id": group_id, "auto.offset.reset": "earliest"})
        try:
            consumer.subscribe([topic])
            message = consumer.poll(TIMEOUT_S)
            assert message is not None
            error = message.error()
            if error is None:
                consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
            return 0 if error is None else int(error.code())
        except KafkaException as failure:
            return int(failure.args[0].code())
        finally:
            consumer.close()


@pytest.mark.java
def test_kafka_acls(tmp_path: Path, tools: ToolRunner) -> None:
    def talk(for_users: str, for_admins: str) -> None:
        admin = AdminClient({"bootstrap.servers": for_admins})
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(TIMEOUT_S)
        alice = Alice(for_users)

        def acls(*words: str) -> str:
            return tools.run("AclCommand", "--bootstrap-server", for_admins, *words).stdout

        assert alice.write("orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        may_write = ("--allow-principal", "User:alice", "--producer", "--topic", "orders")
        assert "User:alice" in acls("--add", *may_write)
        assert alice.write("orders") == 0
        assert alice.read("orders", "shop-1") == KafkaError.GROUP_AUTHORIZATION_FAILED
        acls(
            "--add",
            *("--allow-principal", "User:alice", "--consumer", "--topic", "ord"),
            *("--group", "shop", "--resource-pattern-type", "prefixed"),
        )
        assert alice.read("orders", "shop-1") == 0
        acls("--add", "--deny-principal", "User:alice", "--topic", "orders", "--operation", "Read")
        assert alice.read("orders", "shop-2") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        listed = acls("--list", "--topic", "orders")
        assert re.search(r"principal=User:alice, host=\*, operation=READ, .*DENY", listed)
        assert "patternType=LITERAL" in listed
        assert "patternType=PREFIXED" in acls("--list")
        acls("--remove", "--force", "--topic", "orders")
        assert alice.write("orders") == KafkaError.TOPIC_AUTHORIZATION_FAILED
        assert "orders" not in acls("--list")

    async def main() -> None:
        async with running(tmp_path, SETTINGS) as broker:
            ports = [f"{HOST}:{listener.port}" for listener in broker.listeners]
            await asyncio.to_thread(talk, *ports)

    asyncio.run(main())
