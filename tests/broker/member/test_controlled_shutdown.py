"""A broker that stops asks to be relieved, and goes anyway; in simulated time."""

import asyncio
import logging
from collections.abc import Callable, Mapping

import pytest

from odradek.broker.member.controlled_shutdown import hand_over
from odradek.protocol.errors import ErrorCode
from odradek.protocol.framing import read_client_id
from odradek.protocol.messages.k07_controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from odradek.protocol.schema import Message
from tests.broker.peers.controllers import OWN_ID, Cluster, OtherBroker
from tests.sim.loop import SimLoop, simulate

LEFT = ControlledShutdownResponse(
    remaining_partitions=[RemainingPartition(topic_name="t", partition_index=n) for n in range(12)]
)
DONE = ControlledShutdownResponse()
REFUSED = ControlledShutdownResponse(error_code=ErrorCode.STALE_BROKER_EPOCH)
UNKNOWN = ControlledShutdownResponse(error_code=30_000)


async def hands_over(cluster: Cluster, broker_epoch: Callable[[], int] = lambda: 5) -> bool:
    return await hand_over(
        cluster.client,
        cluster.metadata,
        cluster.config,
        version=3,
        broker_id=OWN_ID,
        broker_epoch=broker_epoch,
    )


def shut_down(
    answer: Callable[[int, int], Message | None],
    settings: Mapping[str, str] | None = None,
    *,
    others: bool = True,
) -> tuple[bool, float, int]:
    """Whether all was handed over, after how many seconds, and how often it was asked for."""

    async def main(loop: SimLoop) -> tuple[bool, float, int]:
        other = OtherBroker(answer)
        await other.start()
        cluster = Cluster(answer, **(settings or {}))
        if others:
            cluster.tell(1, b1=other)
        else:
            cluster.tell(OWN_ID)
        start = loop.time()
        success = await hands_over(cluster)
        took_s = loop.time() - start
        assert set(other.asked) <= {(7, 3)}
        cluster.client.close()
        await other.stop()
        return success, took_s, len(other.asked)

    return simulate(main, 1).value


def answers(*messages: Message | None) -> Callable[[int, int], Message | None]:
    left = list(messages)
    return lambda api_key, version: left.pop(0)


def test_all_is_handed_over_at_once() -> None:
    success, took_s, asked = shut_down(answers(DONE))
    assert (success, asked) == (True, 1)
    assert took_s < 0.5


def test_what_is_left_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        success, took_s, asked = shut_down(answers(LEFT, REFUSED, DONE))
    assert (success, asked) == (True, 3)
    assert 10 <= took_s < 11
    assert "nobody else can lead t-0, t-1" in caplog.text
    assert "t-9 and 2 more" in caplog.text
    assert "STALE_BROKER_EPOCH" in caplog.text


def test_it_goes_anyway() -> None:
    success, took_s, asked = shut_down(answers(None, UNKNOWN, LEFT))
    assert (success, asked) == (False, 3)
    assert 10 <= took_s < 11


@pytest.mark.parametrize(
    "settings", [{"controlled.shutdown.enable": "false"}, {"controlled.shutdown.max.retries": "0"}]
)
def test_it_can_be_switched_off(settings: dict[str, str]) -> None:
    assert shut_down(answers(), settings)[::2] == (False, 0)


def test_a_single_broker_does_not_wait() -> None:
    success, took_s, asked = shut_down(answers(), others=False)
    assert (success, asked) == (False, 0)
    assert took_s < 0.001


def test_another_controller_is_asked_as_soon_as_it_is_known() -> None:
    """All brokers stop at the same time, the controller first; nobody waits for long."""

    async def main(loop: SimLoop) -> float:
        first, second = OtherBroker(answers(None)), OtherBroker(answers(LEFT))
        await first.start()
        await second.start()
        cluster = Cluster(answers())
        cluster.tell(1, b1=first, b2=second)
        start = loop.time()
        task = asyncio.create_task(hands_over(cluster))
        await asyncio.sleep(0.5)
        cluster.tell(2, b2=second)
        await asyncio.sleep(0.5)
        assert len(second.asked) == 1
        cluster.tell(OWN_ID)
        assert not await task
        took_s = loop.time() - start
        cluster.client.close()
        await first.stop()
        await second.stop()
        return took_s

    assert simulate(main, 1).value < 1.5


def test_a_broker_that_registers_again_meanwhile_is_relieved_as_what_it_is_then() -> None:
    """Its session was lost and renewed: the epoch that it had before would be refused."""

    async def main(loop: SimLoop) -> list[int]:
        epochs = iter([5, 5, -1, 9])
        asked: list[int] = []

        def answer(api_key: int, version: int) -> Message:
            _, position = read_client_id(other.frame, flexible=True)
            request, _ = ControlledShutdownRequest.decode(other.frame, version, position)
            asked.append(request.broker_epoch)
            return DONE if request.broker_epoch == 9 else REFUSED

        other = OtherBroker(answer)
        await other.start()
        cluster = Cluster(answers())
        cluster.tell(1, b1=other)
        assert await hands_over(cluster, lambda: next(epochs))
        cluster.client.close()
        await other.stop()
        return asked

    assert simulate(main, 1).value == [5, 9]


def test_a_cluster_that_changes_for_ever_is_left() -> None:
    async def main(loop: SimLoop) -> float:
        other = OtherBroker(lambda api_key, version: LEFT)
        await other.start()
        cluster = Cluster(answers())
        cluster.tell(1, b1=other)

        async def change() -> None:
            while True:
                await asyncio.sleep(0.2)
                cluster.tell(1, b1=other, b2=other)
                await asyncio.sleep(0.2)
                cluster.tell(1, b1=other)

        changing = asyncio.create_task(change())
        start = loop.time()
        assert not await hands_over(cluster)
        took_s = loop.time() - start
        changing.cancel()
        cluster.client.close()
        await other.stop()
        return took_s

    assert 15 <= simulate(main, 1).value < 17
