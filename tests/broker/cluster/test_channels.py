"""The serial channels to the brokers."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from odradek.broker.cluster.broker_requests import PARTITIONS_MAX, ActiveController, Errors
from odradek.broker.cluster.channels import Channels
from odradek.broker.core.controller.context import Endpoint, LiveBroker
from odradek.broker.core.controller.requests import BrokerRequests, StoppedReplica
from odradek.broker.core.partition_state import PartitionState
from odradek.broker.member.control_messages import FULL_UPDATE, MORE_TO_COME_TAG
from odradek.broker.peers.versions import BY_PROTOCOL_VERSION
from odradek.broker.tasks import TaskSupervisor
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from tests.broker.cluster.cluster_world import ID, FakeBroker, FakeLink
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until


def live(broker_id: int, epoch: int = 1) -> LiveBroker:
    return LiveBroker(broker_id, epoch, (Endpoint("PLAINTEXT", "h", 9, "PLAINTEXT"),))


def led(partition: int, topic: str = "t") -> PartitionState:
    return PartitionState(topic, ID, partition, 1, 0, (1,), (1,), 0, 5)


class Told:
    """Brokers, the channels to them, and what they have answered."""

    def __init__(self, tasks: TaskSupervisor) -> None:
        self.broker = FakeBroker(1)
        self.links: list[FakeLink] = []
        self.answers: list[tuple[str, int, Errors]] = []
        versions = BY_PROTOCOL_VERSION["3.9"]
        sender = ActiveController(1, 5, "PLAINTEXT")
        self.channels = Channels(self.link, sender, versions, self, tasks)
        self.channels.update([live(1)])

    def link(self, broker: LiveBroker) -> FakeLink:
        self.links.append(FakeLink(self.broker))
        return self.links[-1]

    def leader_and_isr_answered(self, broker: LiveBroker, errors: Errors) -> None:
        self.answers.append(("lead", broker.broker_id, errors))

    def deletions_answered(self, broker: LiveBroker, errors: Errors) -> None:
        self.answers.append(("delete", broker.broker_id, errors))

    def send(self, *requests: BrokerRequests) -> None:
        self.channels.send(requests, [live(1)])


@contextlib.asynccontextmanager
async def told() -> AsyncIterator[Told]:
    failures: list[str] = []
    tasks = TaskSupervisor(lambda name, error: failures.append(name))
    made = Told(tasks)
    yield made
    made.channels.close()
    await tasks.close()
    assert not failures


@asynchronous
async def test_everything_in_order() -> None:
    async with told() as t:
        stopped = StoppedReplica("t", 1, -2, delete=True), StoppedReplica("t", 2, 3, delete=False)
        t.broker.codes["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
        t.send(BrokerRequests(1, [led(0)], [led(0)], stopped), BrokerRequests(2, [led(0)]))
        t.send(BrokerRequests(1, update_metadata=()))
        await t.channels.settled(1)
        assert t.broker.names() == [
            "LeaderAndIsr",
            "UpdateMetadata",
            "StopReplica",
            "UpdateMetadata",
        ]
        assert t.answers == [
            ("lead", 1, {("t", 0): ErrorCode.KAFKA_STORAGE_ERROR}),
            ("delete", 1, {("t", 1): ErrorCode.NONE}),
        ]


@asynchronous
async def test_much_at_a_time_goes_in_slices() -> None:
    async with told() as t:
        one_each = [led(0, topic=f"t{number}") for number in range(PARTITIONS_MAX)]
        large = [led(partition, topic="u") for partition in range(PARTITIONS_MAX + 1)]
        # v was extended later: the partitions of a topic need not be neighbours.
        states = [led(0, topic="v"), *one_each, *large, led(1, topic="v")]
        t.send(BrokerRequests(1, one_each + large, states, is_full=True))
        await t.channels.settled(1)
        assert t.broker.names() == ["LeaderAndIsr"] * 3 + ["UpdateMetadata"] * 3
        sizes, tags = [], []
        for request in t.broker.requests:
            assert isinstance(request, LeaderAndIsrRequest | UpdateMetadataRequest)
            assert request.controller_epoch == 5
            assert request.broker_epoch == 1
            sizes.append(sum(len(topic.partition_states) for topic in request.topic_states))
            tags.append(set(request.tagged_fields or ()))
            if isinstance(request, UpdateMetadataRequest):
                assert request.type == FULL_UPDATE
        # Clients hear of a topic as a whole.
        limit = PARTITIONS_MAX
        assert sizes == [limit, limit, 1, limit, 2, limit + 1]
        assert tags == [set(), set(), set(), {MORE_TO_COME_TAG}, {MORE_TO_COME_TAG}, set()]


@pytest.mark.slow
@asynchronous
async def test_who_is_not_reached_hears_it_later() -> None:
    async with told() as t:
        t.broker.is_reachable = False
        t.send(BrokerRequests(1, [led(0)]))
        t.send(BrokerRequests(1, update_metadata=[led(0)]))
        settled = asyncio.ensure_future(t.channels.settled(1))
        await until(lambda: t.broker.asked_in_vain > 1)
        assert t.channels.owes(1)
        t.broker.is_reachable = True
        await settled
        assert t.broker.names() == ["LeaderAndIsr", "UpdateMetadata"]
        assert len(t.links) == 1


@asynchronous
async def test_who_is_gone_is_told_nothing() -> None:
    async with told() as t:
        t.broker.is_reachable = False
        t.send(BrokerRequests(1, [led(0)]))
        settled = asyncio.ensure_future(t.channels.settled(1))
        await asyncio.sleep(0)
        t.channels.update([])
        await settled
        assert t.links[0].is_closed
        t.send(BrokerRequests(1, [led(1)]))
        t.broker.is_reachable = True
        t.channels.update([live(1, epoch=2)])
        t.send(BrokerRequests(1, update_metadata=[led(2)]))
        await until(lambda: t.broker.requests)
        (request,) = t.broker.requests
        assert isinstance(request, UpdateMetadataRequest)
        assert request.broker_epoch == 2
        assert len(t.links) == 2
