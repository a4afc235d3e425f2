"""The controller of one cluster: its first deeds, and the life of a topic."""

from odradek.broker.coordination import znodes
from tests.broker.cluster.cluster_world import world
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until


@asynchronous
async def test_the_life_of_a_topic() -> None:
    async with world() as w:
        await w.member(1)
        member = await w.controller()
        assert member.controller.controller_epoch == 1
        await w.create_topic("t", (1,), (1,))
        state = await w.until_led("t", 1, 1)
        assert (state.leader_epoch, state.isr, state.controller_epoch) == (0, (1,), 1)
        await w.session.create(znodes.delete_topic_path("t"))
        await w.until_gone(znodes.delete_topic_path("t"))
        await w.until_gone(znodes.topic_path("t"))
        await w.until_gone(znodes.topic_config_path("t"))
        await w.create_topic("t", (1,))
        await until(lambda: w.broker(1).metadata["t", 0] == 1)
