"""Several controllers on one store in memory, and brokers that remember what they are told."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from odradek.broker.cluster.controller import ClusterController
from odradek.broker.config import Config
from odradek.broker.coordination import znodes
from odradek.broker.coordination.current import CurrentSession
from odradek.broker.coordination.embedded import EmbeddedStore
from odradek.broker.coordination.interface import (
    CoordinationLost,
    NoNode,
    Op,
    Result,
    Stat,
    Watch,
)
from odradek.broker.core.controller.context import LiveBroker
from odradek.broker.member.membership import make_startup_paths
from odradek.broker.peers.peer import PeerFailed
from odradek.broker.tasks import TaskSupervisor
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
)
from odradek.protocol.messages.k05_stop_replica import (
    StopReplicaPartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
)
from odradek.protocol.messages.k06_update_metadata import (
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from odradek.protocol.schema import Message
from tests.broker.coordination.fakes import MemoryJournal, fake_runtime
from tests.support.awaiting import until

ID = bytes(range(16))
Key = tuple[str, int]
T = TypeVar("T")


class FakeBroker:
    """A broker as the controller sees it: registered in the store, and asked over links."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.requests: list[Message] = []
        self.is_reachable = True
        self.asked_in_vain = 0
        self.codes: dict[Key, ErrorCode] = {}
        """What it says of partitions; NONE of all others."""
        self.metadata: dict[Key, int] = {}
        """The leaders that it has been told."""
        self.deleted: list[Key] = []
        self.controller_id = -1
        self.under_way = 0

    async def answer(self, request: Message) -> Message:
        """Take it in."""
        await asyncio.sleep(0)
        if not self.is_reachable:
            self.asked_in_vain += 1
            raise PeerFailed("nobody is there")
        assert self.under_way == 0, "two requests at a time"
        self.under_way += 1
        await asyncio.sleep(0)
        self.under_way -= 1
        self.requests.append(request)
        if isinstance(request, LeaderAndIsrRequest):
            return self._lead(request)
        if isinstance(request, StopReplicaRequest):
            return self._stop(request)
        assert isinstance(request, UpdateMetadataRequest)
        self.controller_id = request.controller_id
        for topic in request.topic_states:
            for state in topic.partition_states:
                self.metadata[topic.topic_name, state.partition_index] = state.leader
        return UpdateMetadataResponse()

    def _lead(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        topics = []
        for topic in request.topic_states:
            errors = [
                LeaderAndIsrPartitionError(
                    partition_index=state.partition_index,
                    error_code=self.codes.get((topic.topic_name, state.partition_index), 0),
                )
                for state in topic.partition_states
            ]
            topics.append(LeaderAndIsrTopicError(topic_id=topic.topic_id, partition_errors=errors))
        return LeaderAndIsrResponse(topics=topics)

    def _stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        errors = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                key = topic.topic_name, state.partition_index
                code = self.codes.get(key, ErrorCode.NONE)
                if state.delete_partition and not code:
                    self.deleted.append(key)
                errors.append(
                    StopReplicaPartitionError(
                        topic_name=key[0], partition_index=key[1], error_code=code
                    )
                )
        return StopReplicaResponse(partition_errors=errors)

    def names(self) -> list[str]:
        """The kinds of requests so far."""
        return [type(request).__name__.removesuffix("Request") for request in self.requests]


class FakeLink:
    """The way to a fake broker."""

    def __init__(self, broker: FakeBroker) -> None:
        self._broker = broker
        self.is_closed = False

    async def ask(self, request: Message, version: int) -> Message:
        assert not self.is_closed
        request.encode(version)  # it could go over the wire
        return await self._broker.answer(request)

    def close(self) -> None:
        self.is_closed = True


class CutSession(CurrentSession):
    """Of some operations the answer is lost, whether they were done or not."""

    cuts: Callable[[], bool | None] = staticmethod(lambda: None)
    """None: the answer comes; else it is lost, True: after it was done."""

    async def _cut(self, operation: Callable[[], Awaitable[T]]) -> T:
        cut = self.cuts()
        if cut is not False:
            answer = await operation()
            if cut is None:
                return answer
        raise CoordinationLost("the connection is gone")

    async def get(self, path: str, watch: Watch | None = None) -> tuple[bytes, Stat]:
        return await self._cut(lambda: super(CutSession, self).get(path, watch))

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        return await self._cut(lambda: super(CutSession, self).exists(path, watch))

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        return await self._cut(lambda: super(CutSession, self).children(path, watch))

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        return await self._cut(lambda: super(CutSession, self).multi(ops))


class Member:
    """A broker process: its session, its candidate for controller, its fake broker."""

    def __init__(self, world: "World", broker_id: int, settings: Mapping[str, str]) -> None:
        self._world = world
        self.broker_id = broker_id
        self.session = CutSession(world.store, 1000)
        self.runtime = fake_runtime()
        self.failures: list[str] = []
        self.tasks = TaskSupervisor(lambda name, error: self.failures.append(f"{name}: {error!r}"))
        self.controller = ClusterController(
            self.session,
            broker_id,
            Config({"broker.id": str(broker_id), **settings}),
            self.runtime,
            world.link,
            self.tasks,
        )

    async def start(self, *, register: bool = True) -> None:
        await self.session.open()
        if register:
            await self.register()
        self.session.on_lost.append(self.controller.lost)
        if register:
            self.session.on_renewed.append(self.register)
        self.session.on_renewed.append(self.controller.renewed)
        await self.controller.start()

    async def register(self) -> None:
        await self._world.register(self.session, self.broker_id)

    async def kill(self) -> None:
        """The process is gone; its session ends at once."""
        await self.tasks.close()
        self.session.on_lost.clear()
        await self.session.close()

    async def expire(self) -> None:
        """The store takes the session for dead."""
        await self._world.store.expire_session(self.session.id)


class World:
    """The store, and who is on it."""

    def __init__(self, store: EmbeddedStore) -> None:
        self.store = store
        self.brokers: dict[int, FakeBroker] = {}
        self.members: list[Member] = []
        self.links: list[FakeLink] = []
        self.session = CurrentSession(store, 1000)

    def link(self, broker: LiveBroker) -> FakeLink:
        self.links.append(FakeLink(self.broker(broker.broker_id)))
        return self.links[-1]

    def broker(self, broker_id: int) -> FakeBroker:
        return self.brokers.setdefault(broker_id, FakeBroker(broker_id))

    async def register(self, session: CurrentSession, broker_id: int) -> None:
        endpoint = znodes.RegisteredEndpoint("PLAINTEXT", f"h{broker_id}", 9, "PLAINTEXT")
        node = znodes.BrokerRegistration((endpoint,), 0)
        await session.create(znodes.broker_path(broker_id), node.encode(), ephemeral=True)

    async def member(self, broker_id: int, *, register: bool = True, **settings: str) -> Member:
        """Start a broker."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        member = Member(self, broker_id, named)
        self.broker(broker_id)
        self.members.append(member)
        await member.start(register=register)
        return member

    @property
    def active(self) -> list[Member]:
        """Who believes to be the controller."""
        return [member for member in self.members if member.controller.is_active]

    async def controller(self) -> Member:
        """The one controller, once it has begun."""
        await until(lambda: len(self.active) == 1)
        (member,) = self.active
        await member.controller.settled()
        return member

    async def create_topic(self, name: str, *replicas: tuple[int, ...]) -> None:
        node = znodes.TopicAssignment(dict(enumerate(replicas)), self.topic_id(name))
        await self.session.create(znodes.topic_config_path(name), znodes.encode_config({}))
        await self.session.create(znodes.topic_path(name), node.encode())

    @staticmethod
    def topic_id(name: str) -> bytes:
        return name.encode().rjust(16, b"t")

    async def notify(self, prefix: str, data: bytes) -> None:
        """Leave a sequential node."""
        await self.session.create(prefix, data, sequential=True)

    async def state(self, topic: str, partition: int) -> znodes.PartitionStateNode | None:
        try:
            data, _ = await self.session.get(znodes.partition_state_path(topic, partition))
        except NoNode:
            return None
        return znodes.PartitionStateNode.decode(data)

    async def until_led(self, topic: str, partition: int, leader: int) -> znodes.PartitionStateNode:
        """Wait for a leader, and until all live brokers know it."""
        key = topic, partition

        def all_know() -> bool:
            live = [b for b in self.brokers.values() if b.is_reachable]
            return all(broker.metadata.get(key) == leader for broker in live)

        await until(all_know, f"{key} is led by {leader}")
        state = await self.state(topic, partition)
        assert state is not None
        assert state.leader == leader
        return state

    async def until_gone(self, path: str) -> None:
        """Wait until a node does not exist."""

        async def is_gone() -> bool:
            return await self.session.exists(path) is None

        await until(is_gone, f"{path} is gone")


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    """An empty cluster; everything ends with it, and no task may have failed."""
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    made = World(store)
    await made.session.open()
    await make_startup_paths(made.session)
    try:
        yield made
    finally:
        for member in made.members:
            await member.tasks.close()
            member.session.on_lost.clear()
        for member in made.members:
            await member.session.close()
        await made.session.close()
        await store.close()
    for member in made.members:
        assert not member.failures
