"""Brokers in one loop that replicate over loopback, without a store: the test is the controller."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from odradek.broker import maintenance
from odradek.broker.config import load_config
from odradek.broker.core.partition import Partition
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.broker.local_broker import LocalBroker
from odradek.broker.member.metadata import Address, BrokerInfo, MetadataCache
from odradek.broker.metrics.metrics import Metrics
from odradek.broker.net.connections import Connections
from odradek.broker.net.listener import PlainListener, StreamListener
from odradek.broker.node import Node
from odradek.broker.partitions.replicas import Replicas
from odradek.broker.partitions.roles import Roles
from odradek.broker.peers.addresses import Peers
from odradek.broker.peers.security import load_securities
from odradek.broker.replication.replicator import Replicator
from odradek.broker.runtime import Runtime
from odradek.broker.sasl.credentials import ScramUsers
from odradek.broker.tasks import TaskSupervisor
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.protocol.schema import Message
from odradek.storage.directory.log_dirs import LogDirs
from tests.broker.faulty_files import FaultyFiles
from tests.broker.running import HOST, LeapingClock
from tests.sim.loop import SimLoop
from tests.sim.runtime import SimClock, sim_runtime
from tests.support.awaiting import until
from tests.support.client import Client
from tests.support.messages import batch_of

TOPIC: Final = "t"
KEY: Final = TOPIC, 0
TOPIC_ID: Final = bytes(range(16))
BROKER_EPOCH: Final = 77
SETTINGS: Final = {
    "replica.fetch.backoff.ms": "20",
    "replica.fetch.wait.max.ms": "50",
}


def state_of(
    leader: int, leader_epoch: int, isr: Sequence[int], replicas: Sequence[int], **more: Any
) -> PartitionState:
    """A controller's decision about partition 0."""
    named: dict[str, Any] = {
        "topic": TOPIC,
        "topic_id": TOPIC_ID,
        "partition": 0,
        "partition_epoch": leader_epoch,
        "controller_epoch": 1,
        "is_new": True,
        **more,
    }
    return PartitionState(
        leader=leader,
        leader_epoch=leader_epoch,
        isr=tuple(isr),
        replicas=tuple(replicas),
        **named,
    )


class Controller:
    """Answers AlterPartition, as it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[AlterPartitionRequest, int]] = []
        self.codes: list[int] = []
        """For the next answers; then all is well."""
        self.top_level: list[int] = []
        self.silent = False

    async def ask(self, request: Message, version: int) -> Message:
        """The answer, after a turn of the loop."""
        assert isinstance(request, AlterPartitionRequest)
        decoded, _ = AlterPartitionRequest.decode(bytes(request.encode(version)), version)
        assert isinstance(decoded, AlterPartitionRequest)
        self.asked.append((decoded, version))
        await until(lambda: not self.silent)
        await asyncio.sleep(0)
        if self.top_level:
            return AlterPartitionResponse(error_code=self.top_level.pop(0))
        topics = [
            AlterPartitionResponseTopicData(
                topic_name=topic.topic_name,
                topic_id=topic.topic_id,
                partitions=[self._answer(data) for data in topic.partitions],
            )
            for topic in decoded.topics
        ]
        return AlterPartitionResponse(topics=topics)

    def _answer(self, data: Any) -> AlterPartitionResponsePartitionData:
        if self.codes and (code := self.codes.pop(0)):
            return AlterPartitionResponsePartitionData(
                partition_index=data.partition_index, error_code=code
            )
        isr = data.new_isr or [state.broker_id for state in data.new_isr_with_epochs]
        return AlterPartitionResponsePartitionData(
            partition_index=data.partition_index,
            leader_epoch=data.leader_epoch,
            isr=isr,
            partition_epoch=data.partition_epoch + 1,
        )

    @property
    def wanted(self) -> list[list[int]]:
        """The sets that were asked for, one for each request."""
        return [
            data.new_isr or [state.broker_id for state in data.new_isr_with_epochs]
            for request, _ in self.asked
            for topic in request.topics
            for data in topic.partitions
        ]


class Replicating:
    """One broker: its replicas, its listener, its replicator.  On a `SimLoop` none of it waits."""

    def __init__(self, broker_id: int, directory: Path, settings: Mapping[str, str]) -> None:
        overrides = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{HOST}:0",
            "log.dirs": f"{directory}/first,{directory}/second",
            **SETTINGS,
            **settings,
        }
        self.broker_id = broker_id
        self.config = load_config(overrides=overrides)
        self.files = FaultyFiles()
        loop = asyncio.get_running_loop()
        self._simulated = isinstance(loop, SimLoop)
        if isinstance(loop, SimLoop):
            self.runtime = sim_runtime(loop, loop.main, SimClock(loop), self.files)
        else:
            self.runtime = Runtime.system()
            self.runtime.files = self.files
        self.clock = self.runtime.clock = LeapingClock(self.runtime)
        self.controller = Controller()
        self.failures: list[str] = []
        self.overrides: dict[str, str] = {}
        self.clients: list[Client] = []
        self._directory = directory

    async def start(self) -> None:
        config, runtime = self.config, self.runtime
        self.log_dirs = LogDirs.lock(config.data_dirs, runtime.files)
        self.log_dirs.identify(self.broker_id, "cluster")
        plain = config.topic_config().log_config
        self.log_dirs.load(lambda _: plain, runtime.clock.wall_ms())
        self.tasks = TaskSupervisor(lambda name, error: self.failures.append(f"{name}: {error}"))
        metrics = Metrics()
        self.replicas = Replicas(
            self.log_dirs,
            config,
            runtime,
            self.tasks,
            broker_id=self.broker_id,
            counters=metrics.counters,
            on_offline=self.failures.append,
        )
        self.metadata = MetadataCache("cluster")
        local = LocalBroker(
            config,
            runtime,
            broker_id=self.broker_id,
            is_alone=False,
            metadata=self.metadata,
            metrics=metrics,
            replicas=self.replicas,
            scram_users=ScramUsers(),
        )
        local.broker_epoch = BROKER_EPOCH
        peers = Peers(config, self.metadata, load_securities(config, {}, Runtime.system()))
        self.replicator = Replicator(local, self.tasks, peers, self.controller)
        absent: Any = None
        self.node = Node(
            local,
            topics=absent,
            dynamic_configs=absent,
            client_quotas=absent,
            scram_users=absent,
            groups=absent,
            transactions=absent,
            verifier=absent,
            producer_ids=absent,
            control=absent,
            controller=absent,
            replicator=self.replicator,
            tasks=self.tasks,
        )
        self.replicas.on_log_dir_failed = self.replicator.stopped
        self.tasks.spawn(self.replicator.run(), "lag")
        checkpoints = maintenance.write_checkpoints(self.replicas, config, runtime)
        self.tasks.spawn(checkpoints, "checkpoints")
        self.connections = Connections(config, runtime, self.node)
        listener = StreamListener if self._simulated else PlainListener
        self.listener = listener(self.connections, config.listener_endpoints[0], config)
        await self.listener.bind()
        await self.listener.accept()

    @property
    def info(self) -> BrokerInfo:
        """As the others know it."""
        return BrokerInfo(self.broker_id, None, {"PLAINTEXT": Address(HOST, self.listener.port)})

    async def take(self, *states: PartitionState) -> None:
        """LeaderAndIsr; the topics have `overrides`, no store is asked for them."""
        for state in states:
            self.replicas.set_overrides(state.topic, self.overrides)
        no_session: Any = None
        roles = Roles(
            self.replicas,
            self.runtime.clock,
            no_session,
            broker_id=self.broker_id,
            live=self.metadata.brokers,
            controller_epoch=0,
            tell=self.replicator.roles_changed,
        )
        codes = await roles.take(states)
        assert set(codes.values()) <= {ErrorCode.NONE}, codes
        self.metadata.update_partitions(states)

    async def look_for_lag(self, later_ms: int | None = None) -> None:
        """Half a minute later, to its replicator."""
        if later_ms is None:
            later_ms = self.config.replica_lag_time_max_ms + 1
        self.clock.moved_ms += later_ms
        await self.replicator._look()

    def partition(self, key: TopicPartition = (TOPIC, 0)) -> Partition:
        """The replica here."""
        return self.replicas.partitions[key]

    def bytes_of(self, key: TopicPartition = (TOPIC, 0)) -> bytes:
        """All that its log's segments hold."""
        segments = self.partition(key).log.segments
        return b"".join(s.file.pread(s.file.size_bytes, 0) for s in segments)

    async def client(self) -> Client:
        """A new connection, closed at the end."""
        self.clients.append(await Client.connect(self.listener.port))
        return self.clients[-1]

    async def stop(self) -> None:
        for client in self.clients:
            await client.close()
        self.listener.close()
        self.connections.close_all()
        await self.tasks.close()
        self.log_dirs.abandon()
        self.runtime.close()


class Cluster:
    """Brokers 1, 2 and so on, which know each other."""

    def __init__(self, brokers: Mapping[int, Replicating]) -> None:
        self.brokers = dict(brokers)

    def __getitem__(self, broker_id: int) -> Replicating:
        return self.brokers[broker_id]

    def introduce(self) -> None:
        """UpdateMetadata with the live brokers."""
        live = [broker.info for broker in self.brokers.values()]
        for broker in self.brokers.values():
            broker.metadata.update_brokers(1, live)
            broker.replicator.brokers_changed()

    async def take(self, *states: PartitionState) -> None:
        """LeaderAndIsr to all that have a replica."""
        for broker in self.brokers.values():
            mine = [state for state in states if broker.broker_id in state.replicas]
            if mine:
                await broker.take(*mine)

    async def until_equal(self, key: TopicPartition = (TOPIC, 0)) -> None:
        """All replicas have the same log and high watermark."""

        def ends() -> set[tuple[int, int]]:
            partitions = [b.replicas.partitions.get(key) for b in self.brokers.values()]
            return {(p.log.log_end_offset, p.log.high_watermark) for p in partitions if p}

        await until(lambda: len(ends()) == 1 and len(set(*ends())) == 1, "replicas differ")
        contents = {b.bytes_of(key) for b in self.brokers.values() if key in b.replicas.partitions}
        assert len(contents) == 1


@contextlib.asynccontextmanager
async def replicating(
    directory: Path, count: int = 2, settings: Mapping[str, str] | None = None
) -> AsyncIterator[Cluster]:
    """Brokers that know each other, and have no partitions yet."""
    brokers = {
        broker_id: Replicating(broker_id, directory / f"broker-{broker_id}", settings or {})
        for broker_id in range(1, count + 1)
    }
    try:
        for broker in brokers.values():
            await broker.start()
        cluster = Cluster(brokers)
        cluster.introduce()
        yield cluster
        for broker in brokers.values():
            assert not broker.failures
    finally:
        for broker in brokers.values():
            await broker.stop()
    await until(  # `Connections.warm_up` gives one back when the loop hears of its thread's end
        lambda: not any(broker.files.references for broker in brokers.values()),
        "references are left over",
    )


def on_cluster(
    count: int = 2, **settings: str
) -> Callable[[Callable[[Cluster], Coroutine[Any, Any, None]]], Callable[[Path], None]]:
    """Make `async def test(cluster)` a test."""

    def decorate(test: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Callable[[Path], None]:
        def run(tmp_path: Path) -> None:
            async def main() -> None:
                named = {name.replace("_", "."): value for name, value in settings.items()}
                async with replicating(tmp_path, count, named) as cluster:
                    await test(cluster)

            asyncio.run(main())

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate


async def produce(cluster: Cluster, leader: int, *values: bytes, acks: int = 1) -> None:
    """Append each value in a batch of its own."""
    client = await cluster[leader].client()
    for value in values:
        await client.append(TOPIC, batch_of(value), acks=acks)


def write(path: str, data: bytes) -> None:
    """For tests, which are coroutines, and whose files are small."""
    Path(path).write_bytes(data)


def read(path: str) -> bytes:
    """The same for reading."""
    return Path(path).read_bytes()
