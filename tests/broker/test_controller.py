"""The controller, on a store in memory, with a channel that remembers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable, Sequence

import pytest

from odradek.broker.controller import Controller
from odradek.broker.coordination import znodes
from odradek.broker.coordination.embedded import EmbeddedSession, EmbeddedStore
from odradek.broker.coordination.interface import MultiFailed
from odradek.broker.core.partition_state import NO_LEADER, PartitionState
from odradek.broker.membership import Membership, make_startup_paths
from odradek.broker.metadata import BrokerInfo
from odradek.broker.partition_states import OPS_PER_MULTI_MAX, PRODUCER_ID_BLOCK_SIZE
from tests.broker.coordination.asynchronous import asynchronous
from tests.broker.coordination.fakes import FakeClock, MemoryJournal, fake_runtime
from tests.broker.running import until

ID = bytes(range(16))
BROKER_ID = 3


class Channel:
    """What the brokers were told, in order."""

    def __init__(self) -> None:
        self.told: list[tuple[str, object]] = []
        self.brokers: list[int] = []
        self.offline: set[tuple[str, int]] = set()

    def take(self) -> list[tuple[str, object]]:
        told, self.told = self.told, []
        return told

    async def leader_and_isr(self, states: Sequence[PartitionState]) -> set[tuple[str, int]]:
        self.told.append(("lead", [(s.topic, s.partition, s.leader) for s in states]))
        await asyncio.sleep(0)
        return self.offline & {(state.topic, state.partition) for state in states}

    async def stop_replicas(self, topic: str) -> None:
        self.told.append(("stop", topic))
        await asyncio.sleep(0)

    def update_brokers(self, controller_id: int, brokers: Iterable[BrokerInfo]) -> None:
        self.brokers = [broker.broker_id for broker in brokers]

    def update_partitions(self, states: Sequence[PartitionState]) -> None:
        self.told.append(("update", [(s.topic, s.partition, s.leader) for s in states]))

    def forget_topic(self, topic: str) -> None:
        self.told.append(("forget", topic))


class World:
    """A store and the controllers on it."""

    def __init__(self, session: EmbeddedSession) -> None:
        self.session = session
        self.channel = Channel()

    def controller(self) -> Controller:
        return Controller(self.session, self.channel, BROKER_ID, FakeClock())

    async def elected(self) -> Controller:
        controller = self.controller()
        await controller.elect()
        await controller.take_over()
        return controller

    async def create_topic(self, name: str, partitions: int, replica: int = BROKER_ID) -> None:
        node = znodes.TopicAssignment(dict.fromkeys(range(partitions), (replica,)), ID)
        await self.session.create(znodes.topic_config_path(name), znodes.encode_config({}))
        await self.session.create(znodes.topic_path(name), node.encode())

    async def extend_topic(self, name: str, partitions: int) -> None:
        node = znodes.TopicAssignment(dict.fromkeys(range(partitions), (BROKER_ID,)), ID)
        await self.session.set(znodes.topic_path(name), node.encode())


@contextlib.asynccontextmanager
async def world() -> AsyncIterator[World]:
    """A store in which one broker is registered."""
    store = EmbeddedStore("memory", runtime=fake_runtime(), journal=MemoryJournal())
    await store.start()
    session = await store.open_session(1000)
    await make_startup_paths(session)
    endpoint = znodes.RegisteredEndpoint("PLAINTEXT", "h", 9, "PLAINTEXT")
    registration = znodes.BrokerRegistration((endpoint,), 0)
    await Membership(session, BROKER_ID, session_timeout_ms=1000).register(registration)
    yield World(session)
    await store.close()


@contextlib.asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    """Let it handle events."""
    task = asyncio.create_task(controller.run())
    yield task
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, MultiFailed):
        await task


@asynchronous
async def test_an_election_raises_the_epoch() -> None:
    async with world() as w:
        controller = await w.elected()
        assert controller.controller_epoch == 1
        data, _ = await w.session.get(znodes.CONTROLLER_EPOCH)
        assert znodes.decode_controller_epoch(data) == 1
        data, stat = await w.session.get(znodes.CONTROLLER)
        assert znodes.ControllerNode.decode(data).broker_id == BROKER_ID
        assert stat.ephemeral_owner == w.session.id
        assert w.channel.brokers == [BROKER_ID]
        with pytest.raises(MultiFailed):
            await w.controller().elect()
        await w.session.delete(znodes.CONTROLLER)
        assert (await w.elected()).controller_epoch == 2


@asynchronous
async def test_the_life_of_a_topic() -> None:
    async with world() as w, running(await w.elected()):
        await w.create_topic("t", 2)
        partitions = [("t", 0, BROKER_ID), ("t", 1, BROKER_ID)]
        await until(lambda: ("update", partitions) in w.channel.told)
        assert w.channel.take() == [("lead", partitions), ("update", partitions)]
        data, _ = await w.session.get(znodes.partition_state_path("t", 1))
        state = znodes.PartitionStateNode.decode(data)
        assert (state.leader, state.leader_epoch, state.isr) == (BROKER_ID, 0, (BROKER_ID,))

        await w.extend_topic("t", 4)
        added = [("t", 2, BROKER_ID), ("t", 3, BROKER_ID)]
        await until(lambda: ("update", added) in w.channel.told)
        assert w.channel.take() == [("lead", added), ("update", added)]

        await w.session.create(znodes.delete_topic_path("t"))
        await until(lambda: ("forget", "t") in w.channel.told)
        told = [entry for entry in w.channel.take() if entry[1]]
        assert [kind for kind, _ in told if kind in ("stop", "forget")] == ["stop", "forget"]
        for path in (znodes.BROKER_TOPICS, znodes.DELETE_TOPICS, "/config/topics"):
            assert await w.session.children(path) == []

        await w.create_topic("t", 1)
        await until(lambda: ("update", [("t", 0, BROKER_ID)]) in w.channel.told)


@asynchronous
async def test_many_events_at_a_time() -> None:
    async with world() as w, running(await w.elected()):
        names = [f"t{n}" for n in range(20)]
        await asyncio.gather(*(w.create_topic(name, 3) for name in names))
        for name in names[::2]:
            await w.session.create(znodes.delete_topic_path(name))
        await until(lambda: sum(kind == "forget" for kind, _ in w.channel.told) == 10)
        for name in names[1::2]:
            await until(
                lambda name=name: any(  # type: ignore[misc]
                    kind == "update" and (name, 2, BROKER_ID) in what  # type: ignore[operator]
                    for kind, what in w.channel.told
                )
            )
        assert await w.session.children(znodes.BROKER_TOPICS) == sorted(names[1::2])


@asynchronous
async def test_a_partition_without_a_live_replica_waits() -> None:
    async with world() as w, running(await w.elected()):
        await w.create_topic("t", 1, replica=99)
        await until(lambda: len(w.channel.told) == 2)
        assert w.channel.take() == [("lead", []), ("update", [("t", 0, NO_LEADER)])]
        assert await w.session.exists(znodes.partition_path("t", 0)) is not None
        assert await w.session.exists(znodes.partition_state_path("t", 0)) is None


@asynchronous
async def test_taking_over_what_is_there() -> None:
    async with world() as w:
        await w.create_topic("begun", 2)
        await w.session.create(znodes.partitions_path("begun"))
        await w.session.create(znodes.partition_path("begun", 1))
        state = znodes.PartitionStateNode(BROKER_ID, 7, (BROKER_ID,), 1)
        await w.session.create(znodes.partition_state_path("begun", 1), state.encode())
        await w.create_topic("doomed", 1)
        await w.session.create(znodes.delete_topic_path("doomed"))
        await w.session.create(znodes.delete_topic_path("gone"))
        await w.elected()
        both = [("begun", 0, BROKER_ID), ("begun", 1, BROKER_ID)]
        assert w.channel.take() == [
            ("lead", both),
            ("update", both),
            ("stop", "doomed"),
            ("forget", "doomed"),
            ("stop", "gone"),
            ("forget", "gone"),
        ]
        data, _ = await w.session.get(znodes.partition_state_path("begun", 1))
        assert znodes.PartitionStateNode.decode(data).leader_epoch == 7
        assert await w.session.children(znodes.DELETE_TOPICS) == []


@asynchronous
async def test_more_partitions_than_fit_into_one_write() -> None:
    async with world() as w, running(await w.elected()):
        count = OPS_PER_MULTI_MAX + 50
        await w.create_topic("t", count)
        await until(lambda: any(kind == "update" for kind, _ in w.channel.told))
        assert len(await w.session.children(znodes.partitions_path("t"))) == count
        await w.session.create(znodes.delete_topic_path("t"))
        await until(lambda: ("forget", "t") in w.channel.told)
        assert await w.session.children(znodes.BROKER_TOPICS) == []


@asynchronous
async def test_who_was_replaced_can_change_nothing() -> None:
    async with world() as w:
        old = await w.elected()
        await w.session.delete(znodes.CONTROLLER)
        await w.elected()
        async with running(old) as task:
            await w.create_topic("t", 1)
            await until(task.done)
            assert isinstance(task.exception(), MultiFailed)
            assert await w.session.exists(znodes.partitions_path("t")) is None
            assert w.channel.take() == []
        with pytest.raises(MultiFailed):
            await old.allocate_producer_ids()


@asynchronous
async def test_blocks_of_producer_ids() -> None:
    async with world() as w:
        controller = await w.elected()
        blocks = await asyncio.gather(*(controller.allocate_producer_ids() for _ in range(4)))
        ids = [producer_id for block in blocks for producer_id in block]
        assert sorted(ids) == list(range(4 * PRODUCER_ID_BLOCK_SIZE))
        await w.session.delete(znodes.CONTROLLER)
        again = await w.elected()
        assert (await again.allocate_producer_ids()).start == 4 * PRODUCER_ID_BLOCK_SIZE
        last = znodes.ProducerIdBlock(BROKER_ID, 0, (1 << 63) - 2)
        await w.session.set(znodes.PRODUCER_ID_BLOCK, last.encode())
        with pytest.raises(OverflowError):
            await again.allocate_producer_ids()
