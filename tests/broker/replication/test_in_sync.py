"""In-sync sets shrink and grow through the controller, whatever it answers."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.broker import slices
from odradek.broker.core.partition_state import LEADER_IS_DELETED
from odradek.broker.handlers.delayed_produce import LATE_S
from odradek.protocol.errors import ErrorCode
from odradek.protocol.messages.k00_produce import ProduceResponse
from odradek.protocol.primitives import ZERO_UUID
from tests.support.awaiting import pass_over, until
from tests.support.client import Client
from tests.support.messages import batch_of, produce_request

from .cluster import (
    BROKER_EPOCH,
    KEY,
    TOPIC,
    Cluster,
    Replicating,
    on_cluster,
    produce,
    replicating,
    state_of,
)


async def lagging(cluster: Cluster) -> None:
    """2 follows no more, and the leader has noticed."""
    cluster[2].replicator.stopped([KEY])
    await produce(cluster, 1, b"v")
    await cluster[1].look_for_lag()
    await until(lambda: cluster[1].partition().state.isr == (1,))


def follow(cluster: Cluster) -> None:
    cluster[2].replicator.roles_changed([KEY])


@on_cluster()
async def test_a_follower_leaves_and_comes_back(cluster: Cluster) -> None:
    controller, leader = cluster[1].controller, state_of(1, 0, [1, 2], [1, 2])
    await cluster.take(leader)
    await produce(cluster, 1, b"a", acks=-1)
    assert not controller.asked
    client = await cluster[1].client()
    cluster[2].replicator.stopped([KEY])
    produced = asyncio.ensure_future(client.produce(TOPIC, batch_of(b"b"), acks=-1))
    await until(lambda: cluster[1].partition().log.log_end_offset == 2)
    await cluster[1].look_for_lag()
    assert (await produced).error_code == 0, "2 has left"
    assert cluster[1].partition().state.isr == (1,)
    follow(cluster)
    await until(lambda: cluster[1].partition().state.isr == (1, 2))
    assert cluster[1].partition().state.partition_epoch == 2
    assert controller.wanted == [[1], [1, 2]]
    request, version = controller.asked[0]
    (topic,) = request.topics
    (data,) = topic.partitions
    assert (version, request.broker_id, request.broker_epoch) == (3, 1, BROKER_EPOCH)
    assert (topic.topic_id, data.leader_epoch, data.partition_epoch) == (leader.topic_id, 0, 0)
    assert [state.broker_epoch for state in data.new_isr_with_epochs] == [-1]
    await cluster.until_equal()


@on_cluster()
async def test_a_clock_that_is_moved_gives_up_no_follower_and_no_connection(
    cluster: Cluster,
) -> None:
    leader = cluster[1]
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    cluster[2].replicator.stopped([KEY])
    await produce(cluster, 1, b"b")
    connected = len(leader.connections)
    for moved in cluster.brokers.values():
        moved.clock.ahead_ms = 365 * 86_400_000
        await moved.replicator._look()
        moved.connections.sweep()
    await pass_over(1)
    assert not leader.controller.asked
    assert len(leader.connections) == connected > 0
    await leader.look_for_lag()
    await until(lambda: leader.partition().state.isr == (1,))
    leader.clock.moved_ms += 365 * 86_400_000
    leader.connections.sweep()
    assert len(leader.connections) < connected


def test_one_line_for_all_that_a_broker_leaves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [(TOPIC, number) for number in range(5)]
    # A slow machine would end a slice, and propose, before all partitions were looked at.
    monkeypatch.setattr(slices, "SLICE_MS", 60_000)

    async def main() -> None:
        async with replicating(tmp_path) as cluster:
            both = [1, 2]
            await cluster.take(*(state_of(1, 0, both, both, partition=p) for _, p in keys))
            cluster[2].replicator.stopped(keys)
            client = await cluster[1].client()
            for key in keys:
                await client.produce(TOPIC, batch_of(b"v"), partition=key[1], acks=1)
            await cluster[1].look_for_lag()
            await until(lambda: {cluster[1].partition(key).state.isr for key in keys} == {(1,)})

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    told = [record.message for record in caplog.records if "ISR" in record.message]
    assert told == ["ISRs left broker=2 count=5 topic=t partition=0"]


@on_cluster()
async def test_a_topic_without_an_id_is_asked_for_by_name(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2], topic_id=ZERO_UUID))
    await lagging(cluster)
    (request, version) = cluster[1].controller.asked[0]
    assert (version, request.topics[0].topic_name) == (1, TOPIC)


@pytest.mark.slow
@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NOT_CONTROLLER, 4_321])
def test_what_is_tried_again(tmp_path: object, code: int) -> None:
    @on_cluster()
    async def test(cluster: Cluster) -> None:
        controller = cluster[1].controller
        controller.codes = [code, code]
        await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
        await lagging(cluster)
        assert controller.wanted == [[1], [1], [1]]

    test(tmp_path)  # type: ignore[arg-type]


@pytest.mark.slow
@on_cluster()
async def test_a_request_that_is_refused_as_a_whole(cluster: Cluster) -> None:
    controller = cluster[1].controller
    controller.top_level = [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await lagging(cluster)
    assert len(controller.asked) == 3


@pytest.mark.slow
@on_cluster()
async def test_a_replica_that_may_not_join_yet(cluster: Cluster) -> None:
    """It is proposed again with its next fetch."""
    controller = cluster[1].controller
    await cluster.take(state_of(1, 0, [1], [1, 2]))
    controller.codes = [ErrorCode.INELIGIBLE_REPLICA] * 3
    await until(lambda: cluster[1].partition().state.isr == (1, 2))
    assert controller.wanted == [[1, 2]] * 4


@on_cluster()
async def test_a_leader_that_is_fenced_waits_for_its_next_role(cluster: Cluster) -> None:
    controller = cluster[1].controller
    controller.codes = [ErrorCode.INVALID_UPDATE_VERSION]
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    cluster[2].replicator.stopped([KEY])
    await produce(cluster, 1, b"v")
    await cluster[1].look_for_lag()
    changes = cluster[1].replicator._isr_changes
    assert changes is not None
    await until(lambda: not changes._is_asking)
    await cluster[1].look_for_lag()
    assert len(controller.asked) == 1
    assert cluster[1].partition().log.high_watermark == 0
    await cluster[1].take(state_of(1, 1, [1], [1, 2]))
    assert cluster[1].partition().log.high_watermark == 1


@on_cluster()
async def test_one_request_at_a_time_with_all_that_waits(cluster: Cluster) -> None:
    controller = cluster[1].controller
    states = [state_of(1, 0, [1], [1, 2], partition=number) for number in range(9)]
    controller.silent = True
    await cluster.take(*states)
    await until(lambda: all(cluster[1].partition(state.key).proposal for state in states))
    assert len(controller.asked) == 1
    controller.silent = False
    await until(lambda: all(cluster[1].partition(s.key).state.isr == (1, 2) for s in states))
    assert len(controller.asked) <= 3


@pytest.mark.slow
@on_cluster()
async def test_a_late_answer_about_a_topic_that_was_made_anew(cluster: Cluster) -> None:
    """It is to be asked again, but is gone; the new one still wants its own set."""
    controller = cluster[1].controller
    controller.silent, controller.codes = True, [ErrorCode.UNKNOWN_SERVER_ERROR]
    await cluster.take(state_of(1, 0, [1], [1, 2]))
    await until(lambda: controller.asked)
    for broker in cluster.brokers.values():
        broker.replicas.stop_serving([KEY])
        await broker.replicas.logs.delete(KEY)
    await cluster.take(state_of(1, 0, [1], [1, 2], topic_id=b"another topic id"))
    await until(lambda: cluster[1].partition().proposal)
    controller.silent = False
    await until(lambda: cluster[1].partition().state.isr == (1, 2))


@on_cluster(min_insync_replicas="2")
async def test_too_few_are_in_sync(cluster: Cluster) -> None:
    """Before the append, and after it."""
    controller = cluster[1].controller
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    client = await cluster[1].client()
    await lagging(cluster)
    result = await client.produce(TOPIC, batch_of(b"c"), acks=-1)
    assert result.error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert (result.base_offset, result.error_message, result.log_start_offset) == (-1, None, 0)
    log = cluster[1].partition().log
    assert (log.high_watermark, log.log_end_offset) == (1, 2)
    await client.append(TOPIC, batch_of(b"d"), acks=1)
    assert log.high_watermark == 1, "with acks=1 it is written, but nobody reads it"
    follow(cluster)
    await until(lambda: log.high_watermark == 3)
    assert controller.wanted == [[1], [1, 2]]


@on_cluster(min_insync_replicas="2")
async def test_the_in_sync_set_shrinks_after_the_append(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    cluster[2].replicator.stopped([KEY])
    client = await cluster[1].client()
    produced = asyncio.ensure_future(client.produce(TOPIC, batch_of(b"b"), acks=-1))
    leader = cluster[1].partition()
    await until(lambda: leader.log.log_end_offset == 2)
    await cluster[1].look_for_lag()
    await until(lambda: leader.state.isr == (1,))
    assert not produced.done()
    leader.log.high_watermark = 2  # as if that had moved before the in-sync set did
    leader.wake()
    result = await produced
    assert (result.error_code, result.base_offset) == (
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        1,
    )


def check_names(leader: Replicating, answer: ProduceResponse) -> None:
    """The client is sent to the leader, and told where it is."""
    (result,) = answer.responses[0].partition_responses
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    hint, (endpoint,) = result.current_leader, answer.node_endpoints
    assert (hint.leader_id, hint.leader_epoch) == (leader.broker_id, 1)
    address = leader.info.endpoints["PLAINTEXT"]
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (leader.broker_id, *address[:2])


@on_cluster()
async def test_leadership_is_lost_before_the_follower_has_it(cluster: Cluster) -> None:
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"a", acks=-1)
    cluster[2].replicator.stopped([KEY])
    client = await cluster[1].client()
    request = produce_request(TOPIC, {0: batch_of(b"b")})
    produced = asyncio.ensure_future(client.ask(request, 11))
    await until(lambda: cluster[1].partition().log.log_end_offset == 2)
    await cluster.take(state_of(2, 1, [2], [1, 2]))
    check_names(cluster[2], await produced)
    asked_too_late = produce_request(TOPIC, {0: batch_of(b"c")})
    check_names(cluster[2], await client.ask(asked_too_late, 10))
    (result,) = (await client.ask(asked_too_late, 9)).responses[0].partition_responses
    assert result.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await until(lambda: cluster[1].partition().log.log_end_offset == 1)


async def two_produces_wait(
    cluster: Cluster, client: Client, *, is_idempotent: bool = True
) -> list[int]:
    """To a partition each, on one connection; their correlation ids."""
    both = [1, 2]
    await cluster.take(*(state_of(1, 0, both, both, partition=p) for p in (0, 1)))
    cluster[2].replicator.stopped([(TOPIC, 0), (TOPIC, 1)])
    who = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if is_idempotent else {}
    sent = [
        client.send(produce_request(TOPIC, {partition: batch_of(b"v", **who)}), 11)
        for partition in (0, 1)
    ]
    await until(lambda: cluster[1].partition((TOPIC, 1)).log.log_end_offset == 1)
    return sent


@on_cluster()
async def test_who_has_to_hear_of_another_leader_does_not_wait(cluster: Cluster) -> None:
    """He would write there what comes next, and could not bring this any more."""
    client = await cluster[1].client()
    await two_produces_wait(cluster, client)
    await cluster.take(state_of(2, 1, [2], [1, 2], partition=1))
    assert await client.is_closed()


@on_cluster()
async def test_who_would_write_twice_is_not_hung_up_on(cluster: Cluster) -> None:
    client = await cluster[1].client()
    sent = await two_produces_wait(cluster, client, is_idempotent=False)
    await cluster.take(state_of(2, 1, [2], [1, 2], partition=1))
    await pass_over(LATE_S)
    await cluster.take(state_of(2, 1, [2], [1, 2], partition=0))
    for correlation_id in sent:
        check_names(cluster[2], await client.read(ProduceResponse, 11, correlation_id))


@on_cluster()
async def test_nobody_is_hung_up_on_where_nobody_else_leads(cluster: Cluster) -> None:
    client = await cluster[1].client()
    first, second = await two_produces_wait(cluster, client)
    leader = cluster[1]  # which deletes the topic
    leader.metadata.update_partitions([state_of(LEADER_IS_DELETED, 0, [], [], partition=1)])
    leader.replicas.stop_serving([(TOPIC, 1)])
    await pass_over(LATE_S)
    await cluster.take(state_of(2, 1, [2], [1, 2], partition=0))
    check_names(cluster[2], await client.read(ProduceResponse, 11, first))
    await client.read(ProduceResponse, 11, second)


@on_cluster()
async def test_who_hears_of_another_leader_in_time_is_not_hung_up_on(cluster: Cluster) -> None:
    client = await cluster[1].client()
    sent = await two_produces_wait(cluster, client)
    late_s = 0.5  # the machine may stand still between one partition and the other
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("odradek.broker.handlers.delayed_produce.LATE_S", late_s)
        await cluster.take(*(state_of(2, 1, [2], [1, 2], partition=p) for p in (0, 1)))
    for correlation_id in sent:
        check_names(cluster[2], await client.read(ProduceResponse, 11, correlation_id))
    await pass_over(late_s)
    request = produce_request(TOPIC, {0: batch_of(b"v")})
    check_names(cluster[2], await client.ask(request, 11))


@on_cluster()
async def test_who_is_gone_before_he_has_joined_is_not_waited_for(cluster: Cluster) -> None:
    leader = cluster[1]
    leader.controller.codes = [ErrorCode.INELIGIBLE_REPLICA] * 10_000  # 2 is shutting down
    await cluster.take(state_of(1, 0, [1], [1, 2]))
    await until(lambda: leader.partition().followers[2].is_joining)
    cluster[2].replicator.stopped([KEY])
    client = await leader.client()
    produced = asyncio.ensure_future(client.produce(TOPIC, batch_of(b"v"), acks=-1))
    await until(lambda: leader.partition().log.log_end_offset == 1)
    leader.metadata.update_brokers(1, [leader.info])
    leader.replicator.brokers_changed()
    assert (await produced).error_code == 0


@on_cluster()
async def test_a_stranger_leaves_a_leader_that_has_no_followers(cluster: Cluster) -> None:
    await cluster[1].take(state_of(1, 0, [1, 2], [1]))
    await cluster[1].look_for_lag()
    await until(lambda: cluster[1].partition().state.isr == (1,))
    assert cluster[1].controller.wanted == [[1]]


@on_cluster()
async def test_nothing_is_kept_for_a_follower_that_is_gone(cluster: Cluster) -> None:
    """Not the partition either: it may have been deleted meanwhile."""
    await cluster.take(state_of(1, 0, [1, 2], [1, 2]))
    await produce(cluster, 1, b"v", acks=-1)
    leader = cluster[1]
    sessions = leader.node.fetch_sessions.slots.sessions
    await until(lambda: len(sessions) == 1)
    (session,) = sessions.values()
    assert session.news is not None
    cluster[2].replicator.stopped([KEY])
    await until(lambda: session.news is None or not session.news.is_listened_to)
    await leader.look_for_lag(later_ms=60_000)
    assert len(sessions) == 1
    await leader.look_for_lag(later_ms=60_001)
    assert not sessions
    await until(lambda: not leader.partition().end_waiters)
