"""`Broker(tls=…, sasl=…, acls=…)`: clients get in with what `client_config` gives, only so."""

import asyncio
import logging
import os
import ssl
import stat
import subprocess
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from confluent_kafka import KafkaError as KafkaErrors
from confluent_kafka.admin import AdminClient, NewTopic
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from odradek.client_configs import Access, client_config
from odradek.jaas import jaas_text
from odradek.testing import Broker
from odradek.testing.admin import read_metadata
from odradek.testing.connection import Connection
from tests.kafka.jars import fetch
from tests.support.waiting import until

pytestmark = pytest.mark.wire


@pytest.fixture(
    params=[{}, {"in_process": True}, {"brokers": 3, "in_process": True}, {"brokers": 2}],
    ids=["child", "in process", "three in process", "two in a child"],
)
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(tls=True, **request.param) as started:
        yield started


async def with_aiokafka(broker: Broker) -> None:
    async with AIOKafkaProducer(**broker.client_config("aiokafka")) as producer:
        await producer.send_and_wait("orders", b"from aiokafka", partition=0)


def test_client_configs_reach_it(broker: Broker) -> None:
    plain = KafkaProducer(**broker.client_config("kafka-python"))
    plain.send("orders", b"from kafka-python", partition=0).get(30)
    plain.close()
    asyncio.run(with_aiokafka(broker))
    producer = Producer(broker.client_config("confluent"))
    producer.produce("orders", b"from confluent", partition=0)
    assert producer.flush(30) == 0
    consumer = KafkaConsumer(**broker.client_config("kafka-python"), auto_offset_reset="earliest")
    consumer.assign([TopicPartition("orders", 0)])
    found = [next(consumer).value for _ in range(3)]
    consumer.close()
    assert found == [b"from kafka-python", b"from aiokafka", b"from confluent"]
    assert broker.leader("orders") in broker.broker_ids
    broker.reset()  # the fixture speaks TLS, too


def test_restart_keeps_the_certificate() -> None:
    with Broker(tls=True) as broker:
        before = ssl.get_server_certificate((broker.host, broker.port))
        broker.restart()
        assert ssl.get_server_certificate((broker.host, broker.port)) == before
        store = broker.data_dir.parent / "broker.pem"
        assert stat.S_IMODE(store.stat().st_mode) == 0o600
        authority = broker.client_config("kafka-python")["ssl_cafile"]
        checked = ["openssl", "verify", "-CAfile", authority, str(store)]
        subprocess.run(checked, check=True, capture_output=True)


def test_each_client_says_a_login_in_its_own_words() -> None:
    access = Access("/ca.pem", "SCRAM-SHA-512", "bob", 'a"b\\c')
    jaas = jaas_text("SCRAM-SHA-512", username="bob", password='a"b\\c')
    assert jaas == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="bob" password="a\\"b\\\\c";'
    )
    assert client_config("kafka-python", "h:1", access) == {
        "bootstrap_servers": "h:1",
        "security_protocol": "SASL_SSL",
        "ssl_cafile": "/ca.pem",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "bob",
        "sasl_plain_password": 'a"b\\c',
    }
    assert client_config("confluent", "h:1", access) == {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "bob",
        "sasl.password": 'a"b\\c',
    }
    java = {
        "bootstrap.servers": "h:1",
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": jaas,
    }
    assert client_config("java", "h:1", access) == java
    assert client_config("spark", "h:1", access) == {f"kafka.{k}": v for k, v in java.items()}


def test_each_client_says_in_its_own_words_that_it_has_a_token() -> None:
    access = Access(None, "OAUTHBEARER", "bob")
    plain = {"bootstrap.servers": "h:1", "security.protocol": "SASL_PLAINTEXT"}
    assert client_config("confluent", "h:1", access) == {
        **plain,
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=bob",
    }
    assert client_config("java", "h:1", access) == {
        **plain,
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": jaas_text("OAUTHBEARER", unsecuredLoginStringClaim_sub="bob"),
    }


def test_clients_log_in_with_tokens() -> None:
    acls = ["User:alice write,describe topic:orders", "User:bob read topic:orders"]
    with Broker(sasl="OAUTHBEARER", acls=acls, brokers=2, in_process=True) as broker:
        plain = KafkaProducer(**broker.client_config("kafka-python"))
        plain.send("orders", b"from kafka-python", partition=0).get(30)
        plain.close()
        asyncio.run(with_aiokafka(broker))
        assert delivered(broker, "alice") is None
        consumer = Consumer(
            {**broker.client_config("confluent", user="alice"), "group.id": "not-allowed"}
        )
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        error = message.error()
        assert error is not None
        assert error.code() == KafkaErrors.GROUP_AUTHORIZATION_FAILED
        consumer.close()
        broker.restart()
        broker.reset()


MANY = [{}, {"in_process": True}, {"brokers": 3}]


@pytest.mark.parametrize(
    ("sasl", "tls", "many"),
    [
        ("PLAIN", False, {}),
        ("SCRAM-SHA-256", False, {"in_process": True}),
        ("SCRAM-SHA-512", True, {"brokers": 3}),
    ],
)
def test_clients_log_in(
    sasl: str, tls: bool, many: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "not-for-other-users-of-the-machine"
    given = {"odradek.admin.token": secret}
    with Broker(sasl=sasl, tls=tls, settings=given, **many) as broker:
        producer = Producer(broker.client_config("confluent"))
        producer.produce("orders", b"one", partition=0)
        assert producer.flush(30) == 0
        kafka_python = broker.client_config("kafka-python")
        secrets = secret, str(kafka_python["sasl_plain_password"])
        words = " ".join(psutil.Process(broker.pid or os.getpid()).cmdline())
        assert not [each for each in secrets if each in words]
        access = Access(
            authority=kafka_python.get("ssl_cafile"),
            mechanism=sasl,
            username="admin",
            password="wrong",
        )
        with pytest.raises(PermissionError, match="the broker refuses the login: Authentication"):
            Connection((broker.host, broker.port), access, timeout_s=10)
        broker.restart()
        broker.reset()
        told = broker.log or caplog.text
        assert "authentication refused" in told
        assert not [each for each in secrets if each in told]


@pytest.mark.parametrize("many", MANY, ids=["child", "in process", "three in a child"])
def test_users_may_do_what_acls_allow(many: dict[str, Any]) -> None:
    acls = [
        "User:alice write,describe topic:orders",
        "User:bob read topic:ord*",
        "User:bob read group:*",
        "deny User:mallory all topic:*",
    ]
    with Broker(sasl="SCRAM-SHA-512", acls=acls, **many) as broker:
        admin = AdminClient(broker.client_config("confluent"))
        admin.create_topics([NewTopic("orders", 1)])["orders"].result(30)
        until(lambda: all(knows(broker, number, "orders") for number in broker.broker_ids))
        hers = broker.faults.add(
            api="Produce", principal="User:alice", times=1, error="MESSAGE_TOO_LARGE"
        )
        assert delivered(broker, "alice") == KafkaErrors.MSG_SIZE_TOO_LARGE
        assert hers.hits == 1
        assert {each.principal for each in broker.journal.requests(api="Produce")} == {"User:alice"}
        assert delivered(broker, "alice") is None
        assert delivered(broker, "bob") == KafkaErrors.TOPIC_AUTHORIZATION_FAILED
        assert delivered(broker, "mallory") == KafkaErrors.TOPIC_AUTHORIZATION_FAILED
        reading = {"group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer({**broker.client_config("confluent", user="bob"), **reading})
        consumer.subscribe(["orders"])
        message = consumer.poll(30)
        assert message is not None
        assert message.value() == b"from alice"
        consumer.close()
        broker.restart()
        assert delivered(broker, "alice") is None
        broker.reset()
        with pytest.raises(ValueError, match="there is no user 'carol': admin, alice, bob"):
            broker.client_config("confluent", user="carol")


@pytest.mark.java
def test_brokers_with_zookeeper_log_in_by_scram(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their user is in ZooKeeper before the first of them starts."""
    monkeypatch.setenv("ODRADEK_ZOOKEEPER_JARS", str(fetch("3.9.2")))
    acls = ["User:alice write,describe topic:orders"]
    with Broker(brokers=2, zookeeper="auto", tls=True, sasl="SCRAM-SHA-256", acls=acls) as broker:
        admin = AdminClient(broker.client_config("confluent"))
        admin.create_topics([NewTopic("orders", 1, 2)])["orders"].result(30)
        until(lambda: all(knows(broker, number, "orders") for number in broker.broker_ids))
        assert delivered(broker, "alice") is None
        broker.restart()
        assert delivered(broker, "alice") is None


def knows(broker: Broker, broker_id: int, topic: str) -> bool:
    """Whether a broker has heard of a topic; until then it would have to be created there."""
    told = read_metadata(broker.address(broker_id), broker._access, timeout_s=10)
    return topic in {each.name for each in told.topics}


def delivered(broker: Broker, user: str) -> int | None:
    """Write as a user; the code of the error, None if there is none."""
    producer = Producer(broker.client_config("confluent", user=user))
    codes: list[int | None] = []
    producer.produce(
        "orders",
        f"from {user}".encode(),
        on_delivery=lambda error, _: codes.append(None if error is None else error.code()),
    )
    assert producer.flush(30) == 0
    return codes[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"sasl": "GSSAPI"}, "sasl='GSSAPI': one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"acls": ["User:a read topic:b"]}, "acls are about users, who must log in: give sasl"),
        ({"acls": ["nonsense"], "sasl": "PLAIN"}, "the ACL 'nonsense' is not like"),
    ],
)
def test_what_cannot_be_is_refused(arguments: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Broker(**arguments)
