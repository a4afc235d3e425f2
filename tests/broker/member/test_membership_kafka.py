"""A broker of ours in a cluster whose controller is Apache Kafka 3.9.2."""

import asyncio
from collections.abc import Iterator

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import Session
from odradek.broker.coordination.zookeeper import ZooKeeperStore
from odradek.broker.member.controlled_shutdown import hand_over
from odradek.broker.member.membership import Membership
from odradek.broker.member.metadata import Address, BrokerInfo, MetadataCache
from odradek.broker.member.producer_ids import ProducerIds, allocator
from odradek.broker.peers.versions import BY_PROTOCOL_VERSION
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.framing import read_client_id
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrResponse
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.schema import Message
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.peers.controllers import OWN_ID, Cluster, OtherBroker
from tests.kafka.apache import ApacheKafka, apache_kafka
from tests.support.awaiting import until
from tests.support.tcp_server import HOST

pytestmark = pytest.mark.java

VERSIONS = BY_PROTOCOL_VERSION["3.9"]
TIMEOUT_MS = 6_000
RACK = "r7"


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with apache_kafka("3.9.2", heap_mb=384) as running:
        yield running


class OurBroker(OtherBroker):
    """Listens to the controller, and keeps what it says of the cluster."""

    def __init__(self, metadata: MetadataCache) -> None:
        super().__init__(self._answer)
        self._metadata = metadata

    def _answer(self, api_key: int, version: int) -> Message:
        if api_key == 4:
            assert version == VERSIONS.leader_and_isr
            return LeaderAndIsrResponse()
        assert (api_key, version) == (6, VERSIONS.update_metadata)
        _, position = read_client_id(self.frame, flexible=True)
        request, _ = UpdateMetadataRequest.decode(self.frame, version, position)
        self._metadata.update_brokers(
            request.controller_id,
            [
                BrokerInfo(
                    broker.id,
                    broker.rack,
                    {end.listener: Address(end.host, end.port) for end in broker.endpoints},
                )
                for broker in request.live_brokers
            ],
        )
        return UpdateMetadataResponse()


async def session_of(kafka: ApacheKafka) -> Session:
    store = ZooKeeperStore(kafka.zookeeper, connection_timeout_ms=10_000)  # type: ignore[attr-defined]
    return await store.open_session(TIMEOUT_MS)


def ids_of(cluster: Cluster, epoch: int) -> ProducerIds:
    return ProducerIds(
        allocator(
            cluster.client.ask,
            VERSIONS.allocate_producer_ids,
            broker_id=OWN_ID,
            broker_epoch=lambda: epoch,
        )
    )


@asynchronous
async def test_it_is_taken_in(kafka: ApacheKafka) -> None:
    """Registered, told of the cluster, given producer ids, and relieved before it stops."""
    cluster = Cluster(lambda api_key, version: None)
    broker = OurBroker(cluster.metadata)
    await broker.start()
    session = await session_of(kafka)
    membership = Membership(session, OWN_ID, session_timeout_ms=TIMEOUT_MS)
    end = znodes.RegisteredEndpoint("PLAINTEXT", HOST, broker.port, "PLAINTEXT")
    epoch = await membership.register(
        znodes.BrokerRegistration((end,), 1_700_000_000_000, rack=RACK)
    )
    await until(lambda: OWN_ID in cluster.metadata.brokers, "the controller says nothing")
    assert cluster.metadata.controller_id == 0
    own = cluster.metadata.brokers[OWN_ID]
    assert own == BrokerInfo(OWN_ID, RACK, {"PLAINTEXT": Address(HOST, broker.port)})
    assert cluster.metadata.brokers[0].endpoints["PLAINTEXT"].port == kafka.port

    ids = ids_of(cluster, epoch)
    found = [await ids.next_id() for _ in range(1_001)]
    assert len(set(found)) == 1_001
    with pytest.raises(Refused) as refused:
        await ids_of(cluster, epoch + 1).next_id()
    assert refused.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

    assert await hand_over(
        cluster.client,
        cluster.metadata,
        cluster.config,
        version=VERSIONS.controlled_shutdown,
        broker_id=OWN_ID,
        broker_epoch=lambda: epoch,
    )
    cluster.client.close()
    await session.close()
    await asyncio.sleep(0)
    await broker.stop()
