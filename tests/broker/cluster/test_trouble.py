"""Nodes that nobody can read, and a store whose answers are lost."""

import asyncio
import random

import pytest

from odradek.broker.coordination import znodes
from odradek.broker.core.controller.context import Context
from odradek.protocol.primitives import ZERO_UUID
from tests.broker.cluster.cluster_world import World, world
from tests.broker.coordination.asynchronous import asynchronous
from tests.seeds import seeds
from tests.support.awaiting import until

BROKEN_TOPICS = {
    "text": b"?",
    "list": b"[]",
    "no-replicas": b'{"version":3,"partitions":{"0":[]},"topic_id":"aaXkN2VZTMSJItpqf7dIyA"}',
    "twice": b'{"version":3,"partitions":{"0":[1,1]},"topic_id":"aaXkN2VZTMSJItpqf7dIyA"}',
    "below-zero": b'{"version":3,"partitions":{"-1":[1]},"topic_id":"aaXkN2VZTMSJItpqf7dIyA"}',
    "bad-id": b'{"version":3,"partitions":{"0":[1]},"topic_id":"?"}',
    "a b": b'{"version":1,"partitions":{"0":[1]}}',
}


async def make_broken(w: World) -> None:
    for name, data in BROKEN_TOPICS.items():
        await w.session.create(znodes.topic_path(name), data)
    await w.session.create(f"{znodes.BROKER_IDS}/x", b"{}", ephemeral=True)
    await w.session.create(f"{znodes.BROKER_IDS}/9", b"?", ephemeral=True)
    await w.session.create("/admin/reassign_partitions", b"?")
    await w.session.create("/admin/preferred_replica_election", b'{"partitions":5}')
    await w.notify(znodes.ISR_CHANGE_PREFIX, b"?")
    await w.notify(znodes.LOG_DIR_EVENT_PREFIX, b"?")


async def context_of(w: World) -> Context:
    return (await w.controller()).controller.context


@pytest.mark.parametrize("is_early", [True, False])
def test_nodes_that_cannot_be_used(is_early: bool, caplog: pytest.LogCaptureFixture) -> None:
    @asynchronous
    async def main() -> None:
        async with world() as w:
            if is_early:
                await make_broken(w)
            await w.member(1)
            context = await context_of(w)
            assert context.is_complete is not is_early
            if not is_early:
                await make_broken(w)
            await w.create_topic("good", (1,))
            await w.until_led("good", 0, 1)
            assert list(context.assignments) == ["good"]
            assert list(context.brokers) == [1]
            await w.until_gone("/admin/preferred_replica_election")
            await until(lambda: len(w.active) == 1)
            for name in BROKEN_TOPICS:
                assert f"path={znodes.topic_path(name)} " in caplog.text
            for path in (f"{znodes.BROKER_IDS}/x", f"{znodes.BROKER_IDS}/9"):
                assert f"path={path} " in caplog.text
            # It is mended, and lives.
            node = znodes.TopicAssignment({0: (1,)}, w.topic_id("text"))
            await w.session.create(znodes.delete_topic_path("list"))
            await w.session.set(znodes.topic_path("text"), node.encode())
            await w.until_led("text", 0, 1)
            assert await w.session.exists(znodes.delete_topic_path("list")) is not None
            assert context.controller_epoch == 1
            await w.session.set(znodes.topic_path("list"), node._replace(topic_id=None).encode())
            await w.until_gone(znodes.topic_path("list"))
            await w.until_gone(znodes.delete_topic_path("list"))

    main()


@asynchronous
async def test_a_state_that_cannot_be_used() -> None:
    async with world() as w:
        first = await w.member(1)
        await w.controller()
        await w.create_topic("t", (1,), (1,))
        state = await w.until_led("t", 1, 1)
        await w.create_topic("u", (1,))
        await w.until_led("u", 0, 1)
        path = znodes.partition_state_path("t", 1)
        await w.session.set(path, b'{"leader":"me"}')
        await first.kill()
        w.members.clear()
        await w.member(1)
        context = await context_of(w)
        assert list(context.assignments) == ["u"]
        assert not context.is_complete, "or brokers would drop t, and groups their offsets in it"
        await w.session.set(path, state.encode())
        await until(lambda: w.active and w.active[0].controller.controller_epoch == 3)
        context = await context_of(w)
        assert sorted(context.assignments) == ["t", "u"]
        assert context.is_complete


@asynchronous
async def test_a_known_topic_that_becomes_unreadable() -> None:
    async with world() as w:
        await w.member(1)
        context = await context_of(w)
        await w.create_topic("t", (1,))
        await w.until_led("t", 0, 1)
        await w.session.set(znodes.topic_path("t"), b"?")
        await w.create_topic("u", (1,))
        await w.until_led("u", 0, 1)
        assert sorted(context.assignments) == ["t", "u"]
        node = znodes.TopicAssignment({0: (1,), 1: (1,)}, w.topic_id("t"))
        await w.session.set(znodes.topic_path("t"), node.encode())
        await w.until_led("t", 1, 1)


@asynchronous
async def test_topics_without_an_id_get_one() -> None:
    async with world() as w:
        await w.session.create(znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[1]}}')
        await w.member(1)
        context = await context_of(w)
        await w.until_led("old", 0, 1)
        for name in ("v1", "zero"):
            topic_id = ZERO_UUID if name == "zero" else None
            node = znodes.TopicAssignment({0: (1,)}, topic_id)
            await w.session.create(znodes.topic_path(name), node.encode())
            await w.until_led(name, 0, 1)
        ids = set()
        for name in ("old", "v1", "zero"):
            data, _ = await w.session.get(znodes.topic_path(name))
            ids.add(znodes.TopicAssignment.decode(data).topic_id)
            assert znodes.TopicAssignment.decode(data).topic_id == context.topic_ids[name]
            assert b'"version":3' in data
        assert len(ids - {None, ZERO_UUID}) == 3
        old_id = context.topic_ids["old"]
        # A tool that knows no ids writes the topic anew: it keeps its own.
        await w.session.set(
            znodes.topic_path("old"), b'{"version":1,"partitions":{"0":[1],"1":[1]}}'
        )
        await w.until_led("old", 1, 1)
        data, _ = await w.session.get(znodes.topic_path("old"))
        assert znodes.TopicAssignment.decode(data).topic_id == old_id


@asynchronous
async def test_two_topics_of_one_id() -> None:
    async with world() as w:
        await w.member(1)
        context = await context_of(w)
        await w.create_topic("t", (1,))
        await w.until_led("t", 0, 1)
        node = znodes.TopicAssignment({0: (1,)}, w.topic_id("t"))
        await w.session.create(znodes.topic_path("copy"), node.encode())
        await w.create_topic("u", (1,))
        await w.until_led("u", 0, 1)
        assert sorted(context.assignments) == ["t", "u"]


@asynchronous
async def test_a_topic_that_somebody_removes_and_makes_anew() -> None:
    async with world() as w:
        await w.member(1)
        context = await context_of(w)
        await w.create_topic("t", (1,))
        await w.until_led("t", 0, 1)
        for part in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
            await w.session.delete(znodes.topic_path("t") + part)
        node = znodes.TopicAssignment({0: (1,), 1: (1,)}, w.topic_id("other"))
        await w.session.create(znodes.topic_path("t"), node.encode())
        await w.until_led("t", 1, 1)
        assert context.topic_ids["t"] == w.topic_id("other")


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(3, 30))
def test_answers_that_are_lost(seed: int) -> None:
    chance = random.Random(seed)

    @asynchronous
    async def main() -> None:
        async with world() as w:
            for broker_id in (1, 2):
                member = await w.member(broker_id)
                member.session.cuts = lambda: (
                    chance.choice([True, False]) if (chance.random() < 0.05) else None
                )
            for number in range(5):
                await w.create_topic(f"t{number}", (1, 2), (2, 1))
                await w.until_led(f"t{number}", 1, 2)
                if number % 2:
                    await w.session.create(znodes.delete_topic_path(f"t{number}"))
                    await w.until_gone(znodes.delete_topic_path(f"t{number}"))
            await asyncio.sleep(0)
            for member in w.members:
                member.session.cuts = lambda: None
            controller = (await w.controller()).controller
            assert controller.controller_epoch == 1  # nobody has resigned
            names = await w.session.children(znodes.BROKER_TOPICS)
            assert names == ["t0", "t2", "t4"] == sorted(controller.context.assignments)
            for key, state in controller.context.states.items():
                stored = await w.state(*key)
                assert stored is not None
                assert (stored.leader, stored.isr) == (state.leader, state.isr)

    main()
