"""A broker of ours that joins Apache Kafka 3.9.2 with its authorizer."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from kazoo.client import KazooClient

from odradek.broker.member.beside_kafka import is_kafka
from odradek.broker.member.metadata import Address, BrokerInfo, MetadataCache
from odradek.broker.peers.addresses import Peers
from odradek.broker.peers.security import load_securities
from odradek.broker.runtime import Runtime
from odradek.broker.server import StartupError
from odradek.protocol.messages.k30_create_acls import CreateAclsRequest
from odradek.protocol.messages.k31_delete_acls import DeleteAclsFilter, DeleteAclsRequest
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.requests import every_acl, read_acl
from tests.kafka.apache import Kafka39, apache_kafka
from tests.support.awaiting import until
from tests.support.client import Client

from ..running import HOST, RunningBroker, make_broker, on_broker, running

OUR_ID: Final = "7"
AUTHORIZER: Final = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka39]:
    with apache_kafka("3.9.2", settings=request.param, heap_mb=384) as running:
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
    peers = Peers(broker.config, metadata, load_securities(broker.config, {}, Runtime.system()))
    assert not await is_kafka(peers, 1, 0)


@pytest.mark.java
@pytest.mark.parametrize("kafka", [{}], indirect=True, ids=["no authorizer"])
@asynchronous
async def test_it_says_once_that_this_is_not_supported(
    kafka: Kafka39, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)

    def said() -> list[str]:
        lines = [record.getMessage() for record in caplog.records]
        return [line for line in lines if line.startswith("broker=0 is Apache Kafka's")]

    async with running(tmp_path, settings_of(kafka)):
        await until(lambda: said(), "it says nothing")
    assert len(said()) == 1
    assert said()[0].endswith("a cluster with both is not supported yet")


@pytest.mark.java
@pytest.mark.parametrize("kafka", [AUTHORIZER], indirect=True, ids=["authorizer"])
@asynchronous
async def test_where_there_is_an_authorizer_it_does_not_come(
    kafka: Kafka39, tmp_path: Path
) -> None:
    """It has no ACL yet, and lets nobody in but its super user."""
    broker, runtime = make_broker(tmp_path, settings_of(kafka))
    with zookeeper_of(kafka) as zookeeper:
        try:
            with pytest.raises(
                StartupError, match=r"an authorizer \(/kafka-acl\).*delete the nodes"
            ):
                await broker.start()
            assert zookeeper.get_children("/brokers/ids") == ["0"]
            zookeeper.delete("/kafka-acl", recursive=True)
            with pytest.raises(StartupError, match=r"an authorizer \(/kafka-acl-extended\)"):
                await broker.start()
        finally:
            await broker.stop()
            runtime.close()


@pytest.mark.java
@pytest.mark.parametrize("kafka", [AUTHORIZER], indirect=True, ids=["authorizer"])
@asynchronous
async def test_both_have_the_same_acls(kafka: Kafka39, tmp_path: Path) -> None:
    """Each hears of what the other has added or removed."""
    async with running(tmp_path, {**settings_of(kafka), **AUTHORIZER}) as broker:
        ours = await broker.client()
        kafkas = await Client.connect(kafka.port)
        broker.clients.append(kafkas)

        async def shown(client: Client) -> set[tuple[str, int, str]]:
            answer = await client.ask(every_acl(), 3)
            return {
                (each.resource_name, each.pattern_type, acl.principal)
                for each in answer.resources
                for acl in each.acls
            }

        wanted: set[tuple[str, int, str]] = set()
        for number, client in enumerate((ours, kafkas, ours, kafkas)):
            other = kafkas if client is ours else ours
            acl = read_acl("orders", f"User:{number}")
            acl.resource_pattern_type = 3 + number // 2
            answer = await client.ask(CreateAclsRequest(creations=[acl]), 3)
            assert answer.results[0].error_code == 0
            wanted.add(("orders", acl.resource_pattern_type, acl.principal))

            async def has_all(other: Client = other) -> bool:
                return await shown(other) == wanted

            await until(has_all)
        every = DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        removed = await ours.ask(DeleteAclsRequest(filters=[every]), 3)
        assert len(removed.filter_results[0].matching_acls) == len(wanted)

        async def has_none() -> bool:
            return await shown(kafkas) == set()

        await until(has_none)
