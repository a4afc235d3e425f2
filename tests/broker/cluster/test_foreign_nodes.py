"""Nodes that can be read, and that no broker or tool in its right mind has written."""

import json

import pytest

from odradek.broker.cluster.election import KRaftControls
from odradek.broker.coordination import znodes
from odradek.broker.coordination.interface import Create
from odradek.broker.coordination.json_fields import MalformedZnode
from tests.broker.cluster.cluster_world import World, world
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until

REQUESTS = (
    "/admin/delete_topics/x",
    "/admin/delete_topics/t",
    "/isr_change_notification/isr_change_0000000001",
    "/log_dir_event_notification/log_dir_event_0000000001",
    "/admin/reassign_partitions",
    "/admin/preferred_replica_election",
)
ASKED = (
    b'{"version":1,"partitions":[{"topic":"x","partition":0,"replicas":[1]}],"broker":1,"event":1}'
)


async def still_controls(w: World) -> None:
    """The controller is the first one, and does its work."""
    await w.create_topic("alive", (1, 2))
    await w.until_led("alive", 0, 1)
    (member,) = w.active
    assert member.controller.controller_epoch == 1


@asynchronous
async def _has_children(parent: str, *, is_first: bool) -> None:
    async with world() as w:
        await w.create_topic("t", (1, 2))
        asked = [Create(parent, ASKED), Create(f"{parent}/child"), Create(f"{parent}/child/b")]
        if is_first:
            await w.session.multi(asked)
        await w.member(1)
        await w.member(2)
        await w.controller()
        if not is_first:
            await w.session.multi(asked)
        await w.until_gone(parent)
        await still_controls(w)


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("parent", REQUESTS)
def test_a_request_with_something_below_it(parent: str, is_first: bool) -> None:
    _has_children(parent, is_first=is_first)


@asynchronous
async def test_something_below_the_config_of_a_topic_that_goes() -> None:
    async with world() as w:
        await w.create_topic("t", (1, 2))
        await w.session.create(f"{znodes.topic_config_path('t')}/child")
        await w.member(1)
        await w.member(2)
        await w.controller()
        await w.session.create(znodes.delete_topic_path("t"))
        await w.until_gone(znodes.delete_topic_path("t"))
        assert await w.session.exists(znodes.topic_config_path("t")) is None
        await still_controls(w)


STATES = {
    "last-leader-epoch": {"leader_epoch": 2**31 - 1},
    "negative-leader-epoch": {"leader_epoch": -1},
    "later-controller": {"controller_epoch": 7},
    "leader-of-deleted": {"leader": -2},
    "nobody-in-sync": {"isr": [-1]},
    "too-many-in-sync": {"isr": [2, 1, *range(3, 1002)]},
}


@pytest.mark.parametrize("change", STATES.values(), ids=STATES)
def test_a_state_from_which_nothing_can_follow(change: dict[str, object]) -> None:
    """It is left as it is; the controller goes on with all the others."""
    data = {"controller_epoch": 1, "leader": 2, "version": 1, "leader_epoch": 0, "isr": [2, 1]}

    @asynchronous
    async def run() -> None:
        async with world() as w:
            await w.member(1)
            dying = await w.member(2)
            await w.create_topic("t", (2, 1))
            await w.create_topic("u", (2, 1))
            await w.until_led("t", 0, 2)
            path = znodes.partition_state_path("t", 0)
            strange = json.dumps({**data, **change}).encode()
            await w.session.set(path, strange)
            await dying.kill()
            w.brokers.pop(2)
            await w.until_led("u", 0, 1)
            assert (await w.session.get(path))[0] == strange
            await still_controls(w)

    run()


@pytest.mark.parametrize("epoch", [b"?", b"", b"2147483647"])
def test_an_epoch_that_cannot_be_raised(epoch: bytes) -> None:
    @asynchronous
    async def run() -> None:
        async with world() as w:
            await w.session.create(znodes.CONTROLLER_EPOCH, epoch)
            with pytest.raises(MalformedZnode, match="controller_epoch"):
                await w.member(1)
            assert await w.session.exists(znodes.CONTROLLER) is None

    run()


@asynchronous
async def test_an_epoch_that_breaks_while_the_session_is_renewed() -> None:
    async with world() as w:
        member = await w.member(1)
        await w.controller()
        await w.session.set(znodes.CONTROLLER_EPOCH, b"?")
        await member.expire()
        await until(lambda: member.session.is_live and not w.active)
        await w.session.set(znodes.CONTROLLER_EPOCH, b"1")
        await w.session.create(znodes.CONTROLLER, b"?")
        await w.session.delete(znodes.CONTROLLER)
        await w.controller()


@asynchronous
async def test_a_kraft_controller_that_takes_over() -> None:
    async with world() as w:
        member = await w.member(1)
        await w.controller()
        node = znodes.ControllerNode(3000, 0, kraft_controller_epoch=4).encode()
        await w.session.set(znodes.CONTROLLER, node)
        await until(lambda: not w.active)
        assert member.controller.controller_id == -1
        with pytest.raises(KRaftControls):
            await w.member(2)


@pytest.mark.slow
@asynchronous
async def test_an_office_that_is_given_up_while_there_is_no_connection() -> None:
    """Else nobody would be in office for as long as the session lasts."""
    async with world() as w:
        member = await w.member(1)
        await w.controller()
        answers = iter([False, False, None])
        member.session.cuts = lambda: next(answers, None)
        await member.controller.resign()
        assert next(answers, "used up") == "used up"
        await until(lambda: w.active and member.controller.controller_epoch == 2)
