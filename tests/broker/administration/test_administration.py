"""Topics and configs in a cluster of three brokers: who may be asked, and who hears of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest

from odradek.broker.config import load_config
from odradek.broker.coordination import znodes
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import SessionExpired
from odradek.broker.runtime import Runtime
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k10_find_coordinator import FindCoordinatorRequest
from odradek.protocol.messages.k19_create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from odradek.protocol.messages.k48_describe_client_quotas import DescribeClientQuotasRequest
from tests.broker.requests import (
    alter_configs,
    change_configs,
    create_partitions,
    delete_topics,
    describe_configs,
    metadata,
)
from tests.broker.running import LeapingClock, RunningBroker, WatchedFiles, hang_up
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import creatable, error_codes

pytestmark = pytest.mark.wire

TOPIC, BROKER = 2, 4
SET = 0


class Cluster:
    """Three brokers in one loop that share a store, and a client of each."""

    def __init__(self, store: EmbeddedStore, brokers: list[RunningBroker]) -> None:
        self.store = store
        self.brokers = brokers
        self.clients: list[Client] = []

    @property
    def controller_id(self) -> int:
        (found,) = (b.broker_id for b in self.brokers if b.node.controller.is_active)
        return found

    @property
    def controller(self) -> Client:
        """A connection to it."""
        return self.clients[self.controller_id]

    @property
    def other_id(self) -> int:
        """A broker that is not the controller."""
        return 2 - self.controller_id if self.controller_id != 1 else 0

    @property
    def other(self) -> Client:
        """A connection to it."""
        return self.clients[self.other_id]

    def replicas(self, topic: str, asked: int = 0) -> list[tuple[int, ...]]:
        """As a broker knows them."""
        return [
            state.replicas for state in self.brokers[asked].node.metadata.topics[topic].partitions
        ]


@asynccontextmanager
async def running(directory: Path, racks: str = "", **settings: str) -> AsyncIterator[Cluster]:
    """`racks`: one letter for each broker, a space for none."""
    runtime = Runtime.system()
    runtime.files = WatchedFiles()
    runtime.clock = LeapingClock(runtime)
    store = EmbeddedStore(str(directory / "store"), runtime=runtime)
    brokers: list[RunningBroker] = []
    try:
        await store.start()
        for broker_id in range(3):
            given = {name.replace("_", "."): value for name, value in settings.items()}
            if racks[broker_id : broker_id + 1].strip():
                given["broker.rack"] = racks[broker_id]
            own = {
                "broker.id": str(broker_id),
                "controlled.shutdown.enable": "false",
                "log.dirs": str(directory / str(broker_id)),
                "listeners": "PLAINTEXT://127.0.0.1:0",
            }
            config = load_config(overrides={**given, **own})
            brokers.append(RunningBroker(config, runtime, store=store, process_password="theirs"))
            await brokers[-1].start()
        cluster = Cluster(store, brokers)
        cluster.clients = [await broker.client() for broker in brokers]
        await until(lambda: all(len(b.node.metadata.brokers) == 3 for b in brokers))
        yield cluster
    finally:
        for broker in reversed(brokers):
            await hang_up(broker.clients)
            await broker.stop()
        await store.close()
        runtime.close()


def on_cluster(
    racks: str = "", **settings: str
) -> Callable[[Callable[[Cluster], Awaitable[None]]], Callable[[Path], None]]:
    """Make `async def test(cluster)` a test."""

    def decorate(test: Callable[[Cluster], Awaitable[None]]) -> Callable[[Path], None]:
        def run(tmp_path: Path) -> None:
            async def main() -> None:
                async with running(tmp_path, racks, **settings) as cluster:
                    await test(cluster)

            asyncio.run(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


async def create(client: Client, *topics: CreatableTopic, timeout_ms: int = 10_000) -> list[int]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=timeout_ms)
    return error_codes((await client.ask(request, 7)).topics)


def assigned(name: str, *replicas: list[int]) -> CreatableTopic:
    topic = creatable(name)
    topic.num_partitions = topic.replication_factor = -1
    topic.assignments = [
        CreatableReplicaAssignment(partition_index=p, broker_ids=ids)
        for p, ids in enumerate(replicas)
    ]
    return topic


@on_cluster(default_replication_factor="2", num_partitions="4")
async def test_who_makes_topics(cluster: Cluster) -> None:
    topic = creatable("t")
    topic.num_partitions = topic.replication_factor = -1
    assert await create(cluster.other, topic) == [ErrorCode.NOT_CONTROLLER]
    assert await create(cluster.controller, topic) == [0]
    assert [len(replicas) for replicas in cluster.replicas("t", cluster.controller_id)] == [2] * 4
    topic.name, topic.replication_factor = "u", 4
    assert await create(cluster.controller, topic) == [ErrorCode.INVALID_REPLICATION_FACTOR]
    answer = await cluster.other.ask(create_partitions("t", 6), 3)
    assert error_codes(answer.results) == [ErrorCode.NOT_CONTROLLER]
    answer = await cluster.controller.ask(create_partitions("t", 6), 3)
    assert error_codes(answer.results) == [0]
    first = cluster.replicas("t", cluster.controller_id)[0][0]
    added = cluster.replicas("t", cluster.controller_id)[4:]
    assert [replicas[0] for replicas in added] == [(4 + first) % 3, (5 + first) % 3]
    answer = await cluster.controller.ask(delete_topics(6, "t"), 6)
    assert error_codes(answer.responses) == [0]
    assert await create(cluster.controller, creatable("t")) == [0]  # at once


@on_cluster(default_replication_factor="3", num_partitions="2")
async def test_a_topic_that_is_made_by_itself_anywhere(cluster: Cluster) -> None:
    (topic,) = (await cluster.other.ask(metadata("auto", create=True), 8)).topics
    assert topic.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    await until(lambda: "auto" in cluster.brokers[cluster.other_id].node.metadata.topics)
    replicas = cluster.replicas("auto", cluster.other_id)
    assert [set(some) for some in replicas] == [{0, 1, 2}] * 2
    # What this broker has not been told of collides all the same.
    topics = cluster.brokers[cluster.other_id].node.metadata.topics
    assert await create(cluster.controller, creatable("a.b")) == [0]
    await until(lambda: "a.b" in topics)
    (topic,) = (await cluster.other.ask(metadata("a_b", create=True), 8)).topics
    assert topic.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


@on_cluster(default_replication_factor="4")
async def test_too_few_brokers(cluster: Cluster) -> None:
    (topic,) = (await cluster.other.ask(metadata("auto", create=True), 8)).topics
    assert topic.error_code == ErrorCode.INVALID_REPLICATION_FACTOR


@on_cluster(offsets_topic_replication_factor="4")
async def test_too_few_brokers_for_groups(cluster: Cluster) -> None:
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    (found,) = (await cluster.other.ask(request, 4)).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


@on_cluster("ab ")
async def test_racks_of_some_brokers_only(cluster: Cluster) -> None:
    """As in Kafka 3.9, nothing can be assigned then, not even by itself."""
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert await create(cluster.controller, creatable("t")) == [unknown]
    (topic,) = (await cluster.other.ask(metadata("auto", create=True), 8)).topics
    assert topic.error_code == unknown
    assert await create(cluster.controller, assigned("t", [0, 1])) == [0]
    answer = await cluster.controller.ask(create_partitions("t", 2), 3)
    assert error_codes(answer.results) == [unknown]


@on_cluster("aab")
async def test_racks_of_all_brokers(cluster: Cluster) -> None:
    topic = creatable("t")
    topic.num_partitions, topic.replication_factor = 6, 2
    assert await create(cluster.controller, topic) == [0]
    for replicas in cluster.replicas("t", cluster.controller_id):
        assert 2 in replicas


@on_cluster()
async def test_an_assignment_to_a_broker_that_is_down(cluster: Cluster) -> None:
    refused = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await create(cluster.controller, assigned("t", [7, 1], [2, 7])) == [0]
    (first, second) = cluster.brokers[cluster.controller_id].node.metadata.topics["t"].partitions
    assert [first.leader, first.isr, second.leader] == [1, (1,), 2]
    assert await create(cluster.controller, assigned("u", [0], [7])) == [refused]


async def change(client: Client, kind: int, name: str, config: str, value: str) -> int:
    answer = await client.ask(change_configs(kind, name, (config, SET, value)), 1)
    code: int = answer.responses[0].error_code
    return code


@on_cluster()
async def test_configs_are_written_by_any_broker_and_heard_by_all(cluster: Cluster) -> None:
    assert await create(cluster.controller, assigned("t", [0, 1, 2])) == [0]
    size = "max.message.bytes"
    await until(lambda: all("t" in b.node.metadata.topics for b in cluster.brokers))

    def heard(value: int) -> bool:
        return all(
            broker.node.replicas.partitions["t", 0].config.max_message_bytes == value
            for broker in cluster.brokers
        )

    for value, client in enumerate(cluster.clients, 500):
        assert await change(client, TOPIC, "t", size, str(value)) == 0
        await until(partial(heard, value))
    assert await change(cluster.other, BROKER, "", "message.max.bytes", "800") == 0
    await cluster.other.ask(alter_configs(TOPIC, "t", {}), 2)
    await until(lambda: heard(800))
    name = str(cluster.other_id)
    wrong = await change(cluster.controller, BROKER, name, "message.max.bytes", "900")
    assert wrong == ErrorCode.INVALID_REQUEST
    assert await change(cluster.other, BROKER, name, "message.max.bytes", "900") == 0
    sizes = [broker.node.config.message_max_bytes for broker in cluster.brokers]
    assert sizes == [900 if b == cluster.other_id else 800 for b in range(3)]


@on_cluster()
async def test_the_store_is_out_of_reach(cluster: Cluster) -> None:
    """Everybody is told so, and stays connected."""
    unknown = ErrorCode.UNKNOWN_SERVER_ERROR
    assert await create(cluster.controller, creatable("t")) == [0]

    async def fail(*arguments: object, **named: object) -> None:
        raise SessionExpired("no session just now")

    session = cluster.brokers[cluster.controller_id].session
    with pytest.MonkeyPatch.context() as patch:
        for name in ("get", "exists", "children", "multi", "create", "set"):
            patch.setattr(session, name, fail)
        client = cluster.controller
        assert await create(client, creatable("u")) == [unknown]
        assert error_codes((await client.ask(create_partitions("t", 2), 3)).results) == [unknown]
        assert error_codes((await client.ask(delete_topics(6, "t"), 6)).responses) == [unknown]
        (topic,) = (await client.ask(metadata("auto", create=True), 8)).topics
        assert topic.error_code == unknown
        assert await change(client, TOPIC, "t", "max.message.bytes", "5") == unknown
        answer = await client.ask(DescribeClientQuotasRequest(components=[]), 1)
        assert answer.error_code == unknown
        answer = await client.ask(describe_configs(TOPIC, "t"), 4)
        assert error_codes(answer.results) == [unknown]
    assert await create(cluster.controller, creatable("u")) == [0]


@on_cluster()
async def test_a_new_session_hears_of_what_it_missed(cluster: Cluster) -> None:
    lagging = cluster.brokers[cluster.other_id]
    configs = lagging.node.dynamic_configs
    number = configs._handled
    await cluster.store.expire_session(lagging.session.id)
    assert await change(cluster.controller, BROKER, "", "message.max.bytes", "801") == 0
    await until(lambda: lagging.node.config.message_max_bytes == 801)
    await until(lambda: configs._handled > number)
    assert await change(cluster.controller, BROKER, "", "message.max.bytes", "802") == 0
    await until(lambda: lagging.node.config.message_max_bytes == 802)
    # Its notification has come and gone again, as after a very long outage.
    path = znodes.broker_config_path(None)
    await cluster.brokers[cluster.controller_id].session.set(
        path, znodes.encode_config({"message.max.bytes": "803"})
    )
    await cluster.store.expire_session(lagging.session.id)
    await until(lambda: lagging.node.config.message_max_bytes == 803)
