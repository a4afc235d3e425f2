"""What brokers say to each other is taken from brokers: by which listener who may ask for what."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from odradek.broker.config import Config, ConfigError, load_config
from odradek.broker.handlers import APIS, Api, Need
from odradek.broker.local_cluster import LocalCluster
from odradek.broker.net.endpoints import PRIVATE
from odradek.broker.peers.peer import Peer, PeerFailed
from odradek.broker.runtime import Runtime
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest, StopReplicaTopicV1
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from odradek.protocol.messages.k07_controlled_shutdown import ControlledShutdownRequest
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from odradek.protocol.messages.k60_describe_cluster import DescribeClusterRequest
from odradek.protocol.schema import Message
from odradek.ready_line import ready_line
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of, creatable

from .requests import SENSIBLE, metadata
from .running import HOST, RunningBroker, WatchedFiles, on_broker
from .test_every_version import codes_in

OF_BROKERS = [api for api in APIS.values() if api.need is Need.BROKER]
OF_SOME = [api for api in APIS.values() if api.need is not Need.NOTHING]
REFUSED = {ErrorCode.CLUSTER_AUTHORIZATION_FAILED}
HOSTILE: tuple[tuple[Message, int], ...] = (
    (
        StopReplicaRequest(
            controller_epoch=1000,
            delete_partitions=True,
            topics=[StopReplicaTopicV1(name="t", partition_indexes=[0])],
        ),
        2,
    ),
    (UpdateMetadataRequest(controller_id=7, controller_epoch=1000), 8),
    (ControlledShutdownRequest(broker_id=0), 0),
)
"""What would delete a partition, leave no broker to be seen, and have nobody lead new topics."""
SEVERAL = {
    "listeners": ",".join(f"{name}://{HOST}:0" for name in ("CLIENTS", "BROKERS", "PLANE")),
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT,PLANE:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


def test_what_is_for_brokers() -> None:
    assert [api.key for api in OF_BROKERS] == [4, 5, 6, 7, 56, 67, 20002]


@pytest.mark.parametrize("api", OF_SOME, ids=lambda api: api.name)
def test_it_can_be_refused(api: Api) -> None:
    assert callable(api.refuse)


@pytest.mark.slow
@on_broker(both=False)
async def test_alone_a_broker_hears_none(broker: RunningBroker) -> None:
    client = await broker.client()
    for api in OF_BROKERS:
        for version in range(api.first, api.last + 1):
            answer = await client.ask(SENSIBLE[api.key](version, bytes(16)), version)
            assert set(codes_in(answer)) == REFUSED, (api.name, version)
    for version, refused in ((3, False), (4, True)):
        answer = await client.ask(SENSIBLE[24](version, bytes(16)), version)
        assert (set(codes_in(answer)) == REFUSED) is refused
    await keeps_its_topics(client)


async def keeps_its_topics(client: Client) -> None:
    """A client can't do what only a controller may."""
    await client.create_topic("t")
    await client.append("t", batch_of(b"v"))
    assert await codes_of_hostile(client) == [REFUSED] * len(HOSTILE)
    assert (await client.fetch("t")).high_watermark == 1
    assert (await client.ask(metadata("t"), 12)).brokers
    await client.create_topic("u")
    await client.append("u", batch_of(b"v"))


async def codes_of_hostile(client: Client) -> list[set[int]]:
    """Of each of their answers."""
    return [set(codes_in(await client.ask(request, version))) for request, version in HOSTILE]


@on_broker(both=False)
async def test_who_is_refused_is_named(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "odradek.broker.access")
    client = await broker.client()
    answer = await client.ask(ControlledShutdownRequest(broker_id=0), 1)
    assert set(codes_in(answer)) == REFUSED
    named = "api=ControlledShutdown principal=User:ANONYMOUS host=127.0.0.1 listener=PLAINTEXT"
    assert named in caplog.text


@pytest.mark.parametrize(
    ("settings", "taken"),
    [
        ({}, {"BROKERS"}),
        ({"control.plane.listener.name": "PLANE"}, {"BROKERS", "PLANE"}),
        ({"odradek.broker.listeners.accepted": "plane"}, {"BROKERS", "PLANE"}),
    ],
)
def test_listeners_of_their_own(settings: Mapping[str, str], taken: set[str]) -> None:
    assert Config({**SEVERAL, **settings}).broker_listeners.accepting == taken


def test_an_accepted_listener_is_not_connected_to() -> None:
    chosen = Config({**SEVERAL, "odradek.broker.listeners.accepted": "PLANE"}).broker_listeners
    assert chosen.names == {"BROKERS"}
    with pytest.raises(ConfigError, match="WHERE is not one of listeners"):
        Config({**SEVERAL, "odradek.broker.listeners.accepted": "PLANE, where"})


@on_broker({**SEVERAL, "odradek.broker.listeners.accepted": "PLANE"}, both=False)
async def test_brokers_come_by_a_listener_that_they_move_to(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False
    stale = LeaderAndIsrRequest(controller_epoch=0, broker_epoch=-1)
    codes = []
    for listener in broker.listeners:
        async with await Client.connect(listener.port) as peer:
            codes.append((await peer.ask(stale, 7)).error_code)
    accepted = ErrorCode.STALE_CONTROLLER_EPOCH
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED, accepted, accepted]


@on_broker({**SEVERAL, "control.plane.listener.name": "PLANE"}, both=False)
async def test_brokers_come_by_theirs(broker: RunningBroker) -> None:
    broker.node.local.is_alone = False
    stale = LeaderAndIsrRequest(controller_epoch=0, broker_epoch=-1)
    for listener in broker.listeners[1:]:
        async with await Client.connect(listener.port) as peer:
            assert (await peer.ask(stale, 7)).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    await keeps_its_topics(await broker.client())


def load(directory: Path) -> LocalCluster:
    settings = {"listeners": f"PLAINTEXT://{HOST}:0"}
    runtime = Runtime.system()
    runtime.files = WatchedFiles()
    return LocalCluster(
        str(directory), 2, lambda own: load_config(overrides={**settings, **own}), runtime
    )


@pytest.mark.slow
def test_brokers_of_one_process_speak_where_no_client_is_told_of(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = load(tmp_path)
        try:
            await cluster.start()
            ports = [broker.port for broker in cluster.brokers.values()]
            async with await Client.connect(ports[0]) as client:
                topics = [creatable("r", factor=2)]
                answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=30_000), 7)
                assert answer.topics[0].error_code == 0
                await until(lambda: is_replicated(client))
                for request in (metadata("r"), DescribeClusterRequest()):
                    told = await client.ask(request, min(request.VERSIONS.last, 12))
                    assert [broker.port for broker in told.brokers] == ports
                assert await codes_of_hostile(client) == [REFUSED] * len(HOSTILE)
            line = ready_line(list(cluster.brokers.values()), "d")
            assert all(f":{port}" in line for port in ports)
            assert line.count("://") == 2
            for broker in cluster.brokers.values():
                assert [end.port for end in broker.listening] == [broker.port]
                assert PRIVATE.name not in str(broker.config.describe_broker())
        finally:
            await cluster.stop()
            cluster._runtime.close()

    asyncio.run(main())


@pytest.mark.slow
def test_brokers_of_one_process_hear_no_stranger(tmp_path: Path) -> None:
    """Not even where clients need no login: a controller of another cluster goes on sending to the
    port of a broker that was killed, which may be a port of this cluster by now."""

    async def main() -> None:
        cluster = load(tmp_path)
        try:
            await cluster.start()
            for broker_id, broker in cluster.brokers.items():
                known = broker.node.metadata.brokers[broker_id].endpoints[PRIVATE.name]
                for request, version in HOSTILE:
                    stranger = Peer(HOST, known.port, client_id="7", timeout_ms=10_000)
                    with pytest.raises(PeerFailed, match="hung up"):
                        await stranger.ask(request, version)
                    stranger.close()
            async with await Client.connect(cluster.brokers[0].port) as client:
                assert len((await client.ask(metadata("r"), 12)).brokers) == 2
        finally:
            await cluster.stop()
            cluster._runtime.close()

    asyncio.run(main())


async def is_replicated(client: Client) -> bool:
    """Whether acks=all is acknowledged, and both are in sync."""
    (topic,) = (await client.ask(metadata("r"), 12)).topics
    return sorted(topic.partitions[0].isr_nodes) == [0, 1] if topic.partitions else False
