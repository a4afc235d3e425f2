"""The controller is found, wherever it is and wherever it goes; in simulated time."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from odradek.broker.member.metadata import Address, BrokerInfo
from odradek.broker.peers.peer import PeerFailed
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k56_alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from odradek.protocol.messages.k67_allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from odradek.protocol.schema import Message
from tests.sim.loop import SimLoop, simulate
from tests.support.tcp_server import HOST

from .controllers import OWN_ID, Cluster, OtherBroker

REQUEST = AllocateProducerIdsRequest(broker_id=OWN_ID)


def ids_from(first: int) -> Callable[[int, int], Message]:
    return lambda api_key, version: AllocateProducerIdsResponse(producer_id_start=first)


def refuses(api_key: int, version: int) -> Message:
    return AllocateProducerIdsResponse(error_code=ErrorCode.NOT_CONTROLLER)


def run(test: Callable[[SimLoop], Awaitable[None]]) -> None:
    async def main(loop: SimLoop) -> None:
        await test(loop)

    simulate(main, 1)


async def first_id(cluster: Cluster) -> int:
    answer = await cluster.client.ask(REQUEST, 0)
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer.producer_id_start


def test_it_is_this_broker() -> None:
    async def test(_: SimLoop) -> None:
        cluster = Cluster(ids_from(5))
        cluster.tell(OWN_ID)
        assert await first_id(cluster) == 5
        assert cluster.self_asked == 1

    run(test)


def test_one_connection_for_all() -> None:
    async def test(_: SimLoop) -> None:
        other = OtherBroker(ids_from(5))
        await other.start()
        cluster = Cluster(refuses)
        cluster.tell(1, b1=other)
        assert await asyncio.gather(*(first_id(cluster) for _ in range(5))) == [5] * 5
        assert other.asked == [(67, 0)] * 5
        assert len(other.connections) == 1
        cluster.client.close()
        await other.stop()

    run(test)


def test_it_moves(caplog: pytest.LogCaptureFixture) -> None:
    """From nobody over somebody who is it no more to another, to this one; one warning in all."""

    async def test(loop: SimLoop) -> None:
        old, new = OtherBroker(refuses), OtherBroker(ids_from(6))
        await old.start()
        await new.start()
        cluster = Cluster(ids_from(7))
        task = asyncio.create_task(first_id(cluster))
        await asyncio.sleep(0.5)
        cluster.tell(1, b1=old, b2=new)
        await asyncio.sleep(0.5)
        assert 5 <= len(old.asked) <= 11
        cluster.tell(2, b1=old, b2=new)
        told_s = loop.time()
        assert await task == 6
        assert loop.time() - told_s < 0.1
        cluster.tell(OWN_ID)
        assert await first_id(cluster) == 7
        assert len(new.connections) == 1
        await old.stop()
        await new.stop()

    with caplog.at_level(logging.WARNING):
        run(test)
    assert [record.message.partition("reason=")[2] for record in caplog.records] == [
        "no controller is known"
    ]


def test_it_dies_and_comes_back() -> None:
    async def test(_: SimLoop) -> None:
        other = OtherBroker(lambda api_key, version: None)
        await other.start()
        cluster = Cluster(refuses)
        cluster.tell(1, b1=other)
        task = asyncio.create_task(first_id(cluster))
        await asyncio.sleep(0.3)
        await other.stop()
        await asyncio.sleep(0.3)
        assert not task.done()
        assert len(other.asked) > 2
        other.answer = ids_from(8)
        await other.start()
        assert await task == 8
        cluster.client.close()
        await other.stop()

    run(test)


def test_not_controller_for_one_partition_is_enough() -> None:
    """A controller that knows less than we do is an old one."""

    async def test(_: SimLoop) -> None:
        answers = iter((ErrorCode.NOT_CONTROLLER, ErrorCode.INVALID_UPDATE_VERSION))

        def answer(api_key: int, version: int) -> Message:
            partition = AlterPartitionResponsePartitionData(error_code=next(answers))
            topic = AlterPartitionResponseTopicData(partitions=[partition])
            return AlterPartitionResponse(topics=[topic])

        other = OtherBroker(answer)
        await other.start()
        cluster = Cluster(refuses)
        cluster.tell(1, b1=other)
        response = await cluster.client.ask(AlterPartitionRequest(broker_id=OWN_ID), 3)
        assert isinstance(response, AlterPartitionResponse)
        code = response.topics[0].partitions[0].error_code
        assert code == ErrorCode.INVALID_UPDATE_VERSION
        assert other.asked == [(56, 3), (56, 3)]
        cluster.client.close()
        await other.stop()

    run(test)


def test_close_ends_who_waits() -> None:
    async def test(_: SimLoop) -> None:
        cluster = Cluster(refuses)
        tasks = [asyncio.create_task(first_id(cluster)) for _ in range(2)]
        await asyncio.sleep(0.25)
        cluster.client.close()
        for failed in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(failed, PeerFailed)

    run(test)


@pytest.mark.parametrize(
    ("settings", "controller_port"),
    [({}, 1), ({"control.plane.listener.name": "PLANE"}, 2)],
)
def test_listeners(settings: dict[str, str], controller_port: int) -> None:
    """The control plane is for the controller only."""
    cluster = Cluster(refuses, **settings)
    endpoints = {"PLAINTEXT": Address(HOST, 1), "PLANE": Address(HOST, 2)}
    cluster.metadata.update_brokers(
        3, [BrokerInfo(3, None, endpoints), BrokerInfo(4, None, {"PLAINTEXT": Address(HOST, 1, 1)})]
    )
    peers = cluster.client._peers
    assert peers.address(3).port == 1
    assert peers.controller_address(3).port == controller_port
    with pytest.raises(PeerFailed, match="broker 5 is not known"):
        peers.address(5)
    with pytest.raises(PeerFailed, match="broker 4 can't be spoken with: it speaks SSL on its"):
        peers.address(4)
    if settings:
        with pytest.raises(PeerFailed, match="no listener PLANE"):
            peers.controller_address(4)
