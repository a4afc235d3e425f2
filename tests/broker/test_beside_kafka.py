"""A broker of ours that joins Apache Kafka 3.9.2 with its authorizer."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from odradek.broker.beside_kafka import is_kafka
from odradek.broker.metadata import Address, BrokerInfo, MetadataCache
from odradek.broker.peers.addresses import Peers
from odradek.broker.server import StartupError
from tests.broker.coordination.asynchronous import asynchronous
from tests.kafka.apache import Kafka39, apache_kafka
from tests.support.awaiting import until

from .running import HOST, RunningBroker, make_broker, on_broker, running

OUR_ID: Final = "7"
SETTINGS: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
ACL: Final = (
    b'{"version":1,"acls":[{"principal":"User:alice","permissionType":"Allow","operation":"Read",'
    b'"host":"*"}]}'
)


@pytest.fixture(scope="module")
def kafka() -> Iterator[Kafka39]:
    with apache_kafka("3.9.2", settings=SETTINGS, heap_mb=384) as running:
        assert isinstance(running, Kafka39)
        yield running


@contextmanager
def zookeeper_of(kafka: Kafka39) -> Iterator[KazooClient]:
    client = KazooClient(kafka.zookeeper)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


def settings_of(kafka: Kafka39) -> dict[str, str]:
    return {"zookeeper.connect": kafka.zookeeper, "broker.id": OUR_ID}


@on_broker(both=False)
async def test_a_broker_of_ours_is_not_taken_for_one(broker: RunningBroker) -> None:
    metadata = MetadataCache("cluster")
    other = BrokerInfo(1, None, {"PLAINTEXT": Address(HOST, broker.port)})
    metadata.update_brokers(1, [other])
    assert not await is_kafka(Peers(broker.config, metadata), 1, 0)


@pytest.mark.java
@asynchronous
async def test_what_it_does_not_do_is_said_once(
    kafka: Kafka39, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nodes of Kafka's authorizer that hold no ACL keep nobody out."""
    with zookeeper_of(kafka) as zookeeper:
        assert "Topic" in zookeeper.get_children("/kafka-acl")
    caplog.set_level(logging.WARNING)

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if line.startswith("broker=0 is Apache Kafka's")]

    async with running(tmp_path, settings_of(kafka)):
        await until(lambda: said(), "it says nothing")
    assert len(said()) == 1
    assert "transactions" in said()[0]
    assert "compression.type" in said()[0]


@pytest.mark.java
@pytest.mark.parametrize("path", ["/kafka-acl/Topic/t", "/kafka-acl-extended/prefixed/Topic/t"])
@asynchronous
async def test_where_there_are_acls_it_does_not_come(
    kafka: Kafka39, tmp_path: Path, path: str
) -> None:
    broker, runtime = make_broker(tmp_path, settings_of(kafka))
    with zookeeper_of(kafka) as zookeeper:
        zookeeper.create(path, ACL)
        try:
            with pytest.raises(StartupError, match=rf"holds ACLs \({path} .*not served yet"):
                await broker.start()
            assert zookeeper.get_children("/brokers/ids") == ["0"]
        finally:
            zookeeper.delete(path)
            await broker.stop()
            runtime.close()
