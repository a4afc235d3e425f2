"""Elections that somebody asks for, on a store in memory."""

import contextlib

import pytest

from odradek.broker.controller import Controller
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import MultiFailed
from odradek.broker.core.elections import ElectionType
from odradek.broker.core.partition_state import PartitionState
from odradek.protocol.errors import ErrorCode, Refused

from .coordination.asynchronous import asynchronous
from .test_controller import BROKER_ID, ID, World, running, world

OTHER = 99
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


async def led_by(w: World, leader: int, *isr: int) -> Controller:
    """A controller that finds a topic whose partition 0 has this state at epoch 7."""
    node = znodes.TopicAssignment({0: (BROKER_ID, OTHER), 1: (OTHER, BROKER_ID)}, ID)
    await w.session.create(znodes.topic_config_path("t"), znodes.encode_config({}))
    await w.session.create(znodes.topic_path("t"), node.encode())
    await w.session.create(znodes.partitions_path("t"))
    await w.session.create(znodes.partition_path("t", 0))
    state = znodes.PartitionStateNode(leader, 7, isr, 1)
    await w.session.create(znodes.partition_state_path("t", 0), state.encode())
    controller = await w.elected()
    w.channel.take()
    return controller


async def state_of(w: World, partition: int = 0) -> tuple[znodes.PartitionStateNode, int]:
    data, stat = await w.session.get(znodes.partition_state_path("t", partition))
    return znodes.PartitionStateNode.decode(data), stat.version


@asynchronous
async def test_the_preferred_replica_becomes_leader() -> None:
    async with world() as w:
        controller = await led_by(w, OTHER, OTHER, BROKER_ID)
        async with running(controller):
            (elected,) = (await controller.elect_leaders([("t", 0)], PREFERRED)).values()
            assert isinstance(elected, PartitionState)
            assert (elected.leader, elected.leader_epoch, elected.partition_epoch) == (
                BROKER_ID,
                8,
                1,
            )
            node, version = await state_of(w)
            assert node == znodes.PartitionStateNode(BROKER_ID, 8, (OTHER, BROKER_ID), 1)
            assert version == elected.partition_epoch
            told = [("t", 0, BROKER_ID)]
            assert w.channel.take() == [("lead", told), ("update", told)]
            results = await controller.elect_leaders(None, PREFERRED)
            codes = {p: r.code for p, r in results.items() if isinstance(r, Refused)}
            assert codes == {
                ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
                ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            }
            assert w.channel.take() == []


@asynchronous
async def test_an_unclean_election_says_so() -> None:
    async with world() as w:
        controller = await led_by(w, OTHER, OTHER)
        async with running(controller):
            results = await controller.elect_leaders([("t", 0)], UNCLEAN)
            assert isinstance(results["t", 0], PartitionState)
            node, _ = await state_of(w)
            assert node == znodes.PartitionStateNode(BROKER_ID, 8, (BROKER_ID,), 1, 1)


@asynchronous
async def test_what_is_not_there_and_what_is_going() -> None:
    async with world() as w:
        controller = await led_by(w, OTHER, OTHER, BROKER_ID)
        asked = [("t", 0), ("t", 2), ("absent", 0)]
        election = controller.elect_leaders(asked, PREFERRED)
        await w.session.create(znodes.delete_topic_path("t"))
        controller._events.get_nowait()  # the deletion comes after the election
        async with running(controller):
            results = await election
        assert [r.code if isinstance(r, Refused) else 0 for r in results.values()] == [
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ]


@asynchronous
async def test_a_state_that_changes_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    async with world() as w:
        controller = await led_by(w, OTHER, OTHER, BROKER_ID)
        read, changes = controller._states.read, [(OTHER, BROKER_ID, 5)]

        async def change_after(*arguments: object) -> PartitionState | None:
            state = await read(*arguments)  # type: ignore[arg-type]
            if changes:
                node = znodes.PartitionStateNode(OTHER, 7, changes.pop(), 1)
                await w.session.set(znodes.partition_state_path("t", 0), node.encode())
            return state

        monkeypatch.setattr(controller._states, "read", change_after)
        async with running(controller):
            results = await controller.elect_leaders([("t", 0)], PREFERRED)
        assert isinstance(results["t", 0], PartitionState)
        assert (await state_of(w))[0].isr == (OTHER, BROKER_ID, 5)


@asynchronous
async def test_who_was_replaced_elects_nobody() -> None:
    async with world() as w:
        old = await led_by(w, OTHER, OTHER, BROKER_ID)
        await w.session.delete(znodes.CONTROLLER)
        await w.elected()
        async with running(old) as task:
            with pytest.raises(Refused) as refused:
                await old.elect_leaders([("t", 0)], PREFERRED)
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
            with contextlib.suppress(MultiFailed):
                await task
        assert (await state_of(w))[0].leader_epoch == 7


@asynchronous
async def test_reassignments_that_somebody_began() -> None:
    async with world() as w:
        node = znodes.TopicAssignment(
            {0: (BROKER_ID, OTHER), 1: (BROKER_ID,)}, ID, {0: (OTHER,)}, {0: (5,)}
        )
        await w.session.create(znodes.topic_config_path("t"), znodes.encode_config({}))
        await w.session.create(znodes.topic_path("t"), node.encode())
        controller = await w.elected()
        assert list(controller.reassignments()) == [("t", 0, (BROKER_ID, OTHER), (OTHER,), (5,))]
