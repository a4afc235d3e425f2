"""Fixtures over brokers that already run, and that want TLS and a login."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from confluent_kafka import Producer
from kafka import KafkaProducer

from odradek.cli import main
from odradek.cli.errors import CommandError
from odradek.cli.given_access import GivenAccess
from odradek.secure.authority import Authority
from odradek.secure.client_files import client_files
from odradek.testing import Broker, BrokerFailed
from odradek.testing.external import ExternalBroker
from tests.kafka.apache import HOST, Kafka39
from tests.kafka.process import free_port
from tests.support.waiting import until

from .test_external import exercise
from .test_fixtures import pytest_run

pytestmark = [
    pytest.mark.wire,
    pytest.mark.slow,
]


@pytest.fixture(scope="module", params=["SCRAM-SHA-512", "OAUTHBEARER"])
def secure(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(in_process=True, tls=True, sasl=request.param) as broker:
        yield broker


@pytest.fixture
def file(secure: Broker, tmp_path: Path) -> Path:
    """What an application in Java has for these brokers."""
    path = tmp_path / "client.properties"
    path.write_text(client_files(secure.client_config)["java.properties"])
    return path


async def with_aiokafka(broker: Broker) -> None:
    async with AIOKafkaProducer(**broker.client_config("aiokafka")) as producer:
        await producer.send_and_wait("by-all", b"aiokafka")


def test_every_client_gets_in_by_the_file(secure: Broker, file: Path) -> None:
    broker = ExternalBroker(secure.bootstrap_servers, access=GivenAccess(file))
    broker.start()
    broker.topics.create("by-all")
    producer = Producer(broker.client_config("confluent"))
    producer.produce("by-all", b"confluent")
    assert producer.flush(30) == 0
    plain = KafkaProducer(**broker.client_config("kafka-python"))
    plain.send("by-all", b"kafka-python").get(30)
    plain.close()
    asyncio.run(with_aiokafka(broker))
    seen = [record.value for record in broker.records("by-all")]
    assert seen == [b"confluent", b"kafka-python", b"aiokafka"]
    assert broker.client_config("java") == secure.client_config("java")
    assert broker.client_config("spark") == secure.client_config("spark")
    with pytest.raises(ValueError, match="can't tell how 'alice' logs in"):
        broker.client_config("confluent", user="alice")
    broker.clean()
    broker.close()


def test_without_the_file_it_says_what_is_missing(secure: Broker) -> None:
    with pytest.raises(BrokerFailed, match="closed the connection: perhaps it wants TLS"):
        ExternalBroker(secure.bootstrap_servers).start()


USER_TEST = """
from confluent_kafka import Producer


def test_one(odradek):
    producer = Producer(odradek.client_config("confluent"))
    producer.produce("by-use", b"v")
    assert producer.flush(30) == 0
    assert odradek.prefix == "ci."
"""


@pytest.mark.parametrize("secure", ["SCRAM-SHA-512"], indirect=True)
def test_in_a_run(secure: Broker, file: Path, tmp_path: Path) -> None:
    (tmp_path / "test_user.py").write_text(USER_TEST)
    secured = ["--odradek-external=true", "--odradek-prefix=ci.", "--odradek-external-config"]
    done = pytest_run(tmp_path, *secured, str(file))
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    text = file.read_text()
    file.write_text(text.replace(str(secure.client_config("confluent")["sasl.password"]), "guess"))
    done = pytest_run(tmp_path, *secured, str(file))
    assert "refuses the login: Authentication failed" in done.stdout and "guess" not in done.stdout
    assert "_odradek_pytest.py" not in done.stdout


@pytest.mark.java
def test_apache_kafka_with_and_without_a_login(tmp_path: Path) -> None:
    port = free_port()
    kafka = Kafka39(tmp_path / "kafka", heap_mb=384)
    authority = Authority.make("tests", datetime.now(UTC))
    trusted, store = tmp_path / "authority.pem", tmp_path / "broker.pem"
    trusted.write_bytes(authority.pem.certificate)
    store.write_bytes(authority.issue("broker", [HOST], datetime.now(UTC)).store)
    kafka.settings = {
        "listeners": f"SASL_SSL://{HOST}:{port},PLAINTEXT://{kafka.bootstrap_servers}",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
    }
    file = tmp_path / "client.properties"
    file.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n"
        "sasl.mechanism=SCRAM-SHA-512\nsasl.username=alice\nsasl.password=hunter2\n"
    )
    try:
        kafka.start()
        add = ["users", "add", "alice", "-b", kafka.bootstrap_servers, "--password-file", "-"]
        assert CliRunner().invoke(main, add, input="hunter2").exit_code == 0
        access = GivenAccess(file)
        until(lambda: lets_in(access, f"{HOST}:{port}"))
        for broker in (
            ExternalBroker(kafka.bootstrap_servers),
            ExternalBroker(f"{HOST}:{port}", access=access),
        ):
            broker.start()
            exercise(broker)
    finally:
        kafka.close()


def lets_in(access: GivenAccess, servers: str) -> bool:
    try:
        access.check_reachable(servers)
    except CommandError as error:
        assert "refuses the login" in error.message  # until the broker has heard of the user
        return False
    return True
