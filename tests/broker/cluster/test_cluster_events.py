"""What happens to a cluster while there is a controller."""

from odradek.broker.cluster.admin_requests import (
    PREFERRED_ELECTION,
    REASSIGN_PARTITIONS,
    encode_preferred_elections,
    encode_reassignments,
)
from odradek.broker.coordination import znodes
from odradek.broker.core.controller import procedures
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k04_leader_and_isr import LeaderAndIsrRequest
from odradek.protocol.messages.k05_stop_replica import StopReplicaRequest
from odradek.protocol.messages.k06_update_metadata import UpdateMetadataRequest
from tests.broker.cluster.cluster_world import World, world
from tests.broker.coordination.asynchronous import asynchronous
from tests.support.awaiting import until


async def three(w: World) -> None:
    for broker_id in (1, 2, 3):
        await w.member(broker_id)
    await w.controller()


@asynchronous
async def test_what_brokers_are_told_of_a_new_topic() -> None:
    async with world() as w:
        await three(w)
        for broker in w.brokers.values():
            await until(lambda broker=broker: len(broker.requests) >= 1)  # type: ignore[misc]
        w.broker(2).requests.clear()
        w.broker(3).requests.clear()
        await w.create_topic("t", (2, 1), (1, 2))
        state = await w.until_led("t", 0, 2)
        assert (state.isr, state.leader_epoch) == ((2, 1), 0)
        assert w.broker(2).names() == ["LeaderAndIsr", "UpdateMetadata"]
        assert w.broker(3).names() == ["UpdateMetadata"]
        led, told = w.broker(2).requests
        assert isinstance(led, LeaderAndIsrRequest)
        assert isinstance(told, UpdateMetadataRequest)
        assert (led.controller_id, led.controller_epoch) == (1, 1)
        (topic,) = led.topic_states
        assert (topic.topic_name, topic.topic_id) == ("t", w.topic_id("t"))
        assert [(s.leader, s.is_new, s.replicas) for s in topic.partition_states] == [
            (2, True, [2, 1]),
            (1, True, [1, 2]),
        ]
        leaders = {(b.broker_id, b.host_name, b.port) for b in led.live_leaders}
        assert leaders == {(1, "h1", 9), (2, "h2", 9)}
        assert [(b.id, b.endpoints[0].host) for b in told.live_brokers] == [
            (1, "h1"),
            (2, "h2"),
            (3, "h3"),
        ]
        stat = await w.session.exists(znodes.broker_path(2))
        assert stat is not None
        assert led.broker_epoch == told.broker_epoch == stat.czxid


@asynchronous
async def test_a_broker_dies_and_comes_back() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (3, 2))
        await w.until_led("t", 0, 3)
        third = w.members.pop()
        await third.kill()
        w.broker(3).is_reachable = False
        state = await w.until_led("t", 0, 2)
        assert (state.isr, state.leader_epoch) == ((2,), 1)
        epoch_before = w.members[0].controller.context.controller_epoch
        w.broker(3).is_reachable = True
        w.broker(3).requests.clear()
        await w.member(3)
        await until(lambda: "LeaderAndIsr" in w.broker(3).names())
        assert w.broker(3).names()[0] == "UpdateMetadata"
        assert w.members[0].controller.context.controller_epoch == epoch_before
        assert w.broker(3).metadata["t", 0] == 2


@asynchronous
async def test_partitions_are_added() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (1, 2))
        await w.until_led("t", 0, 1)
        node = znodes.TopicAssignment({0: (1, 2), 1: (3, 1)}, w.topic_id("t"))
        await w.session.set(znodes.topic_path("t"), node.encode())
        assert (await w.until_led("t", 1, 3)).isr == (3, 1)


@asynchronous
async def test_a_deletion_waits_for_a_broker() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (1, 3), (2, 3))
        await w.until_led("t", 1, 2)
        third = w.members.pop()
        await third.kill()
        w.broker(3).is_reachable = False
        context = w.members[0].controller.context
        await until(lambda: 3 not in context.brokers)
        await w.session.create(znodes.delete_topic_path("t"))
        await until(lambda: "t" in context.deletions_halted)
        assert await w.session.exists(znodes.topic_path("t")) is not None
        w.broker(3).is_reachable = True
        await w.member(3)
        await w.until_gone(znodes.delete_topic_path("t"))
        await w.until_gone(znodes.topic_path("t"))
        for broker_id in (1, 2, 3):
            assert w.broker(broker_id).metadata["t", 0] == -2
        assert sorted(w.broker(3).deleted) == [("t", 0), ("t", 1)]
        stops = [r for r in w.broker(1).requests if isinstance(r, StopReplicaRequest)]
        states = [state for r in stops for t in r.topic_states for state in t.partition_states]
        assert [(s.delete_partition, s.leader_epoch) for s in states] == [(False, -2), (True, -2)]


@asynchronous
async def test_topics_may_not_be_deleted() -> None:
    async with world() as w:
        await w.member(1, delete_topic_enable="false")
        await w.controller()
        await w.create_topic("t", (1,))
        await w.until_led("t", 0, 1)
        await w.session.create(znodes.delete_topic_path("t"))
        await w.until_gone(znodes.delete_topic_path("t"))
        assert await w.session.exists(znodes.topic_path("t")) is not None


@asynchronous
async def test_a_log_directory_fails() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (3, 2))
        await w.until_led("t", 0, 3)
        w.broker(3).codes["t", 0] = ErrorCode.KAFKA_STORAGE_ERROR
        await w.notify(znodes.LOG_DIR_EVENT_PREFIX, znodes.LogDirEvent(3).encode())
        state = await w.until_led("t", 0, 2)
        assert state.isr == (2,)
        await until(lambda: not w.members[0].controller._term._events)  # type: ignore[union-attr]
        assert await w.session.children(znodes.LOG_DIR_EVENTS) == []


@asynchronous
async def test_in_sync_replicas_that_an_old_leader_changes_itself() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (3, 2))
        before = await w.until_led("t", 0, 3)
        path = znodes.partition_state_path("t", 0)
        await w.session.set(path, before._replace(isr=(3,)).encode())
        await w.notify(znodes.ISR_CHANGE_PREFIX, znodes.encode_isr_change([("t", 0), ("u", 1)]))
        await w.notify(znodes.ISR_CHANGE_PREFIX, b"rubbish")
        context = w.members[0].controller.context
        await until(lambda: context.states["t", 0].isr == (3,))
        await w.members[0].controller.settled()
        assert await w.session.children(znodes.ISR_CHANGES) == []


@asynchronous
async def test_what_tools_ask_for() -> None:
    async with world() as w:
        await three(w)
        await w.create_topic("t", (3, 2), (2, 3))
        await w.until_led("t", 0, 3)
        await w.members[0].controller.ask(lambda context: procedures.shut_down(context, 3, -1))
        await w.until_led("t", 0, 2)
        await w.members[2].expire()  # it comes again at once
        await until(lambda: not w.members[0].controller.context.shutting_down)
        context = w.members[0].controller.context
        state = context.states["t", 0]
        grown = procedures.IsrChange(
            "t", 0, state.leader_epoch, state.partition_epoch, (2, 3), False
        )
        epoch = context.brokers[2].epoch
        await w.members[0].controller.ask(
            lambda context: procedures.alter_partitions(context, 2, epoch, [grown])
        )
        wanted = encode_preferred_elections([("t", 0), ("nowhere", 7)])
        await w.session.create(PREFERRED_ELECTION, wanted)
        await w.until_led("t", 0, 3)
        await w.until_gone(PREFERRED_ELECTION)
        await w.session.create(PREFERRED_ELECTION, b"rubbish")
        await w.until_gone(PREFERRED_ELECTION)
        await w.session.create(REASSIGN_PARTITIONS, encode_reassignments({("nowhere", 0): (1,)}))
        await w.until_gone(REASSIGN_PARTITIONS)
        await w.session.create(REASSIGN_PARTITIONS, encode_reassignments({("t", 1): (2, 1)}))
        await until(lambda: ("t", 1) in context.reassigning)
        (moving,) = w.members[0].controller.reassignments()
        assert (moving.replicas, moving.adding, moving.removing) == ((2, 1, 3), (1,), (3,))
