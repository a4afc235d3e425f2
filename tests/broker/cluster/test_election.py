"""Who becomes the controller, and how one stops being it."""

import asyncio
import logging
from collections.abc import Sequence

import pytest

from odradek.broker.cluster.election import KRaftControls, Mandate, read_holder, stand, step_down
from odradek.broker.cluster.writing import FencedWriter
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import CoordinationLost, Create, Op, Result
from odradek.broker.core.controller import procedures
from odradek.broker.core.controller.effects import ControllerMoved
from odradek.protocol.errors import ErrorCode, Refused
from tests.broker.cluster.cluster_world import CutSession, Member, World, world
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until


@asynchronous
async def test_everybody_races_and_one_wins() -> None:
    async with world() as w:
        for broker_id in (1, 2, 3):
            await w.member(broker_id)
        epochs = []
        while w.members:
            member = await w.controller()
            epochs.append(member.controller.controller_epoch)
            await until(
                lambda: {m.controller.controller_id for m in w.members} == {w.active[0].broker_id}
            )
            member.controller.require_active()
            for other in w.members:
                if other is not member:
                    with pytest.raises(Refused):
                        other.controller.require_active()
            await member.kill()
            w.members.remove(member)
        assert epochs == [1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [True, False])
@asynchronous
async def test_an_answer_that_is_lost(is_done: bool) -> None:
    async with world() as w:
        session = CutSession(w.store, 1000)
        await session.open()
        cuts = iter([None, None, None, is_done])
        session.cuts = lambda: next(cuts, None)
        assert await stand(session, 7, 0) == Mandate(1, 1)
        assert await read_holder(session) == (7, session.id)
        assert await stand(w.session, 8, 0) is None
        await session.close()


@asynchronous
async def test_who_was_replaced_can_write_nothing() -> None:
    async with world() as w:
        mandate = await stand(w.session, 1, 0)
        assert mandate is not None
        writer = FencedWriter(w.session, mandate)
        await writer.write([Create("/a")])
        await w.session.delete(znodes.CONTROLLER)
        assert await stand(w.session, 2, 0) == Mandate(2, 2)
        with pytest.raises(ControllerMoved):
            await writer.write([Create("/b")])
        assert await w.session.exists("/b") is None
        await step_down(w.session, mandate)
        assert await read_holder(w.session) == (2, w.session.id)


@pytest.mark.parametrize(
    "data",
    [
        znodes.ControllerNode(3000, 0, kraft_controller_epoch=5).encode(),
        b'{"version":3,"brokerid":1,"timestamp":"0"}',
    ],
)
@asynchronous
async def test_another_kind_of_controller_is_not_replaced(data: bytes) -> None:
    async with world() as w:
        await w.session.create(znodes.CONTROLLER, data)
        with pytest.raises(KRaftControls):
            await w.member(1)
        await w.session.delete(znodes.CONTROLLER)
        w.members.clear()


@asynchronous
async def test_a_node_that_nobody_can_read() -> None:
    async with world() as w:
        await w.session.create(znodes.CONTROLLER, b"?")
        member = await w.member(1)
        assert not member.controller.is_active
        assert member.controller.controller_id == -1
        await w.session.delete(znodes.CONTROLLER)
        await w.controller()


@asynchronous
async def test_who_is_no_candidate() -> None:
    async with world() as w:
        member = await w.member(1, odradek_controller_candidate="false")
        await asyncio.sleep(0)
        assert await w.session.exists(znodes.CONTROLLER) is None
        with pytest.raises(Refused) as refused:
            await member.controller.ask(lambda context: procedures.rebalance(context, 10))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        other = await w.member(2)
        assert await w.controller() is other
        await until(lambda: member.controller.controller_id == 2)


async def pair(w: World) -> tuple[Member, Member]:
    """The controller and another broker, and a topic of theirs."""
    first = await w.member(1)
    second = await w.member(2)
    await w.controller()
    await w.create_topic("t", (1, 2))
    await w.until_led("t", 0, 1)
    return first, second


@asynchronous
async def test_a_session_that_expires() -> None:
    async with world() as w:
        first, second = await pair(w)
        await first.expire()
        await until(lambda: second.controller.is_active)
        assert not first.controller.is_active
        assert second.controller.controller_epoch == 2
        await until(lambda: first.controller.controller_id == 2)
        await w.create_topic("u", (2, 1))
        assert (await w.until_led("u", 0, 2)).controller_epoch == 2
        await second.expire()
        await until(lambda: first.controller.is_active)
        assert first.controller.controller_epoch == 3


@asynchronous
async def test_an_error_that_nobody_expected() -> None:
    async with world() as w:
        first, second = await pair(w)
        with pytest.raises(Refused) as refused:
            await first.controller.ask(lambda context: iter(()))  # type: ignore[arg-type,return-value]
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        await until(lambda: second.controller.is_active)
        await w.create_topic("u", (2, 1))
        assert (await w.until_led("u", 0, 2)).controller_epoch == 2


@pytest.mark.slow
@asynchronous
async def test_a_controller_that_has_not_noticed() -> None:
    async with world() as w:
        first, second = await pair(w)
        first.session.cuts = lambda: False  # it hears nothing
        await w.session.delete(znodes.CONTROLLER)
        await until(lambda: second.controller.is_active)
        assert first.controller.is_active
        await w.create_topic("u", (2, 1))
        assert (await w.until_led("u", 0, 2)).controller_epoch == 2
        first.session.cuts = lambda: None
        await until(lambda: not first.controller.is_active)
        assert await read_holder(w.session) == (2, second.session.id)


@asynchronous
async def test_giving_the_office_up() -> None:
    async with world() as w:
        first, second = await pair(w)
        waiting = asyncio.create_task(first.controller.wait_until(lambda context: False))
        await asyncio.sleep(0)
        await first.controller.stop()
        with pytest.raises(Refused):
            await waiting
        await until(lambda: second.controller.is_active)
        await second.controller.stop()
        assert await w.session.exists(znodes.CONTROLLER) is None


@asynchronous
async def test_an_epoch_that_nobody_can_read() -> None:
    async with world() as w:
        member = await w.member(1)
        await w.controller()
        await w.session.set(znodes.CONTROLLER_EPOCH, b"many")
        await w.session.delete(znodes.CONTROLLER)
        await until(lambda: not member.controller.is_active)
        await w.session.set(znodes.CONTROLLER_EPOCH, b"7")
        await w.session.create(znodes.CONTROLLER)
        await w.session.delete(znodes.CONTROLLER)  # only a change makes anybody look again
        assert (await w.controller()).controller.controller_epoch == 8


@pytest.mark.slow
@asynchronous
async def test_who_looks_twice_at_once_is_elected_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session may be renewed just when its watches fire; both looks see that nobody is it."""
    caplog.set_level(logging.INFO)
    async with world() as w:
        member = await w.member(1)
        await w.controller()
        caplog.clear()
        member.controller.lost()
        write, cut_off = member.session.multi, iter([True, True])

        async def multi(ops: Sequence[Op]) -> list[Result]:
            if next(cut_off, False):
                raise CoordinationLost("the connection is gone")
            return await write(ops)

        monkeypatch.setattr(member.session, "multi", multi)
        await w.session.delete(znodes.CONTROLLER)
        await asyncio.gather(member.controller.renewed(), member.controller.renewed())
        await w.controller()
        assert caplog.text.count("elected controller") == 1
