"""Many state nodes are written at once; what somebody else has changed is left as it is."""

from collections.abc import Collection, Sequence
from typing import cast

import pytest

from odradek.broker.cluster.channels import Channels
from odradek.broker.cluster.election import stand
from odradek.broker.cluster.performing import STATES_AT_ONCE, Performer, encode_state
from odradek.broker.cluster.writing import FencedWriter
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import Op, Result
from odradek.broker.core.controller.context import Context
from odradek.broker.core.controller.effects import CreateStates, Procedure, WriteStates
from odradek.broker.core.partition_state import PartitionState, TopicPartition
from odradek.protocol.primitives import ZERO_UUID
from tests.broker.cluster.cluster_world import CutSession, World, world
from tests.broker.coordination.asynchronous import asynchronous

COUNT = 2 * STATES_AT_ONCE + 1
CHANGED = (3, STATES_AT_ONCE + 7)
"""Of the first two transactions one partition each."""


def states(partition_epoch: int) -> list[PartitionState]:
    return [
        PartitionState("t", ZERO_UUID, p, 1, partition_epoch, (1,), (1,), partition_epoch, 1)
        for p in range(COUNT)
    ]


def create() -> Procedure[Collection[TopicPartition]]:
    taken: Collection[TopicPartition] = yield CreateStates(states(0))
    return taken


def write() -> Procedure[Collection[TopicPartition]]:
    changed: Collection[TopicPartition] = yield WriteStates(states(1))
    return changed


class Writes(CutSession):
    """Counts transactions."""

    count = 0

    async def multi(self, ops: Sequence[Op]) -> list[Result]:
        self.count += 1
        return await super().multi(ops)


async def performer(w: World) -> tuple[Performer, Writes]:
    """A controller that has made the states."""
    session = Writes(w.store, 1000)
    await session.open()
    mandate = await stand(session, 1, 0)
    assert mandate is not None
    await session.create(znodes.topic_path("t"))
    nobody = cast(Channels, None)  # nobody is told anything
    context = Context(1, 1, delete_topic_enable=True)
    made = Performer(session, FencedWriter(session, mandate), context, nobody, lambda: False)
    assert await made.perform(create()) == set()
    session.count = 0
    return made, session


async def written(w: World) -> set[int]:
    """The partitions whose nodes say what was to be written."""
    found = set()
    for state in states(1):
        data, stat = await w.session.get(znodes.partition_state_path(*state.key))
        if (data, stat.version) == (encode_state(state), 1):
            found.add(state.partition)
    return found


@asynchronous
async def test_at_once() -> None:
    async with world() as w:
        controller, session = await performer(w)
        assert await controller.perform(write()) == set()
        assert session.count == 3
        assert await written(w) == set(range(COUNT))
        await session.close()


@asynchronous
async def test_what_was_changed_is_left_and_the_others_are_written() -> None:
    async with world() as w:
        controller, session = await performer(w)
        for partition in CHANGED:
            await w.session.set(znodes.partition_state_path("t", partition), b"{}")
        await w.session.delete(znodes.partition_state_path("t", COUNT - 1))
        everybody = {*CHANGED, COUNT - 1}
        assert await controller.perform(write()) == {("t", p) for p in everybody}
        await w.session.create(znodes.partition_state_path("t", COUNT - 1), b"{}")
        assert await written(w) == set(range(COUNT)) - everybody
        await session.close()


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [True, False])
@asynchronous
async def test_what_was_changed_after_an_answer_was_lost(is_done: bool) -> None:
    """Whatever a first attempt has written is ours, although its versions are not as expected."""
    async with world() as w:
        controller, session = await performer(w)
        cuts = iter([is_done, None])
        session.cuts = lambda: next(cuts, None)
        assert await controller.perform(write()) == set()
        assert await written(w) == set(range(COUNT))
        await session.close()
