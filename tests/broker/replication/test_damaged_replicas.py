"""Damaged replicas: when they give way, when they stay, and what the controller is asked."""

import asyncio
import logging
from pathlib import Path

import pytest

from odradek.broker.core.log_uses import Use
from odradek.broker.core.partition_state import PartitionState
from odradek.broker.maintenance.scrubber import Scrubber
from odradek.broker.metrics.counters import REPLICAS_COPIED_ANEW, REPLICAS_DAMAGED
from odradek.broker.partitions.damage_reports import SILENCE_MAX_MS, SILENCE_MS, DamageReports
from odradek.broker.partitions.damaged_replicas import ROOM_BYTES_MIN, Verdict
from odradek.broker.partitions.roles import Codes, Roles
from odradek.broker.runtime import Runtime
from odradek.protocol.errors import ErrorCode
from odradek.storage.jobs import run_job
from tests.broker.running import LeapingClock
from tests.support.awaiting import until

from .cluster import KEY, TOPIC, Cluster, Replicating, on_cluster, produce, state_of

pytestmark = pytest.mark.wire

ISR = [1, 2, 3]
SESSION_TIMEOUT_MS = 18_000


class InlineJobs:
    """No process is started."""

    def __init__(self, broker: Replicating) -> None:
        self._files = broker.files

    async def __call__(self, name, arguments, on_progress=None):  # type: ignore[no-untyped-def]
        return run_job(name, dict(arguments), self._files, lambda _: None)


async def told(broker: Replicating, *states: PartitionState) -> Codes:
    """LeaderAndIsr, and what it is answered with."""
    roles = Roles(
        broker.replicas,
        broker.runtime.clock,
        None,  # type: ignore[arg-type]
        broker_id=broker.broker_id,
        live=broker.metadata.brokers,
        controller_epoch=0,
        tell=broker.replicator.roles_changed,
    )
    return await roles.take(states)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


async def damage(broker: Replicating, offset: int = 1) -> None:
    """A bit of one batch's records flips, and the scrubber sees it."""
    log = broker.partition().log
    segment = log.segments.active
    _, position = segment.find(offset) or (0, 0)
    flip(Path(segment.file.path), position + 65)
    await verify(broker, offset)


async def verify(broker: Replicating, offset: int) -> None:
    broker.runtime.jobs = InlineJobs(broker)
    scrubber = Scrubber(broker.replicas, broker.config, broker.runtime)
    await scrubber.verify(broker.partition().log, offset)


async def with_records(cluster: Cluster) -> PartitionState:
    state = state_of(1, 0, ISR, ISR)
    await cluster.take(state)
    await produce(cluster, 1, b"a", b"b", b"c", acks=-1)
    await cluster.until_equal()
    return state


async def with_one_out_of_sync(cluster: Cluster) -> PartitionState:
    """Broker 2 has the records, and was taken out of the in-sync set: the state that says so."""
    await with_records(cluster)
    without = state_of(1, 1, [1, 3], ISR, is_new=False)
    cluster[2].replicator.stopped([KEY])
    for number in (1, 3, 2):
        await cluster[number].take(without)
    return without


@on_cluster(count=3)
async def test_a_leader_gives_way_and_copies(cluster: Cluster) -> None:
    state = await with_records(cluster)
    broker = cluster[1]
    content, damaged_log = broker.bytes_of(), broker.partition().log
    await damage(broker)
    damaged = broker.replicas.damaged
    assert damaged.look(), "the controller is asked to say again who leads"
    assert not damaged.look(), "once"
    assert await told(broker, state) == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert KEY not in broker.replicas.partitions
    assert not damaged.look()
    assert await told(broker, state) == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}, "not yet"
    await cluster[2].take(state_of(2, 1, [2, 3], ISR, is_new=False))
    new = state_of(2, 1, [2, 3], ISR, is_new=False)
    damaged.stopped(KEY)
    assert not damaged.look(), "the new leader may be dead, and this the only copy"
    assert await told(broker, new) == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    assert broker.replicas.log_dirs.find(*KEY) is damaged_log
    broker.clock.moved_ms += SESSION_TIMEOUT_MS
    assert damaged.look()
    assert await told(broker, new) == {KEY: ErrorCode.NONE}
    await cluster[3].take(new)
    await cluster.until_equal()
    assert broker.bytes_of() == content
    assert broker.partition().log is not damaged_log
    directory = Path(broker.partition().log.directory).parent.parent
    (aside,) = directory.glob(f"*/{TOPIC}-0.*-stray")
    assert b"".join(p.read_bytes() for p in aside.glob("*.log")) != content
    counters = broker.replicas.counters
    assert (counters[REPLICAS_DAMAGED], counters[REPLICAS_COPIED_ANEW]) == (1, 1)
    assert not damaged.look()


@on_cluster(count=3)
async def test_a_follower_leaves_the_in_sync_set_first(cluster: Cluster) -> None:
    """Empty and in sync it could be elected."""
    state = await with_records(cluster)
    broker = cluster[2]
    await damage(broker)
    assert broker.replicas.damaged.look()
    assert await told(broker, state) == {KEY: ErrorCode.KAFKA_STORAGE_ERROR}
    without = state_of(1, 1, [1, 3], ISR, is_new=False)
    await cluster[1].take(without)
    broker.clock.moved_ms += SESSION_TIMEOUT_MS
    assert await told(broker, without) == {KEY: ErrorCode.NONE}
    await cluster[3].take(without)
    await cluster.until_equal()
    await until(lambda: cluster[1].partition().state.isr == (1, 3, 2))


@on_cluster(count=3)
async def test_one_that_is_not_in_sync_begins_anew_at_once(cluster: Cluster) -> None:
    without = await with_one_out_of_sync(cluster)
    await damage(cluster[2])
    assert cluster[2].replicas.damaged.look()
    assert await told(cluster[2], without) == {KEY: ErrorCode.NONE}
    await cluster.until_equal()


@on_cluster(count=3)
async def test_alone_it_stays(cluster: Cluster) -> None:
    """It serves what is sound, until somebody else is in sync."""
    await with_records(cluster)
    alone = state_of(1, 1, [1], ISR, is_new=False)
    for other in (2, 3):
        cluster[other].replicator.stopped([KEY])
    await cluster[1].take(alone)
    await damage(cluster[1])
    broker, damaged = cluster[1], cluster[1].replicas.damaged
    assert not damaged.look()
    client = await broker.client()
    codes = {offset: (await client.fetch(TOPIC, offset)).error_code for offset in range(4)}
    assert codes == {0: 0, 1: ErrorCode.CORRUPT_MESSAGE, 2: 0, 3: 0}
    await produce(cluster, 1, b"d")
    assert await told(broker, alone) == {KEY: ErrorCode.STALE_CONTROLLER_EPOCH}, "as ever"
    assert broker.partition().is_leader
    broker.partition().state = alone._replace(isr=(1, 2), partition_epoch=2)
    assert damaged.look()


@on_cluster(count=3)
async def test_without_room_for_a_copy_it_stays(cluster: Cluster) -> None:
    """What is set aside is kept, and a full disk would stop everybody else on it."""
    state = await with_records(cluster)
    broker, damaged = cluster[1], cluster[1].replicas.damaged
    await damage(broker)
    log = broker.partition().log
    free_bytes = ROOM_BYTES_MIN + log.size_bytes - 1
    for data_dir in broker.log_dirs.online:
        data_dir.space = lambda: (1 << 40, free_bytes)  # type: ignore[method-assign]
    await damaged.look_for_room()
    assert not damaged.look()
    assert damaged.judge(state, live=ISR) is Verdict.TAKE
    free_bytes += 1
    await damaged.look_for_room()
    assert damaged.look()
    assert damaged.judge(state, live=ISR) is Verdict.FAIL


@on_cluster(count=3)
async def test_who_can_not_be_elected_is_no_help(cluster: Cluster) -> None:
    state = await with_records(cluster)
    broker = cluster[1]
    await damage(broker)
    judge = broker.replicas.damaged.judge
    assert judge(state, live=[1]) is Verdict.TAKE
    assert judge(state._replace(isr=(1,)), live=ISR) is Verdict.TAKE
    assert judge(state._replace(leader=-1, isr=(2,), leader_epoch=1), live=ISR) is Verdict.TAKE
    assert judge(state, live=ISR) is Verdict.FAIL
    behind = state._replace(leader=2, isr=(2,), leader_epoch=1)
    assert judge(behind, live=[1, 3]) is Verdict.TAKE
    assert judge(behind._replace(replicas=(2, 3)), live=ISR) is Verdict.TAKE
    assert judge(behind, live=ISR) is Verdict.COPY_ANEW
    old = state_of(2, 0, [2, 3], ISR)._replace(leader_epoch=-1)
    assert judge(old, live=ISR) is Verdict.TAKE, "it is of the past"


@on_cluster(count=3)
async def test_an_epoch_outside_the_checksum(cluster: Cluster) -> None:
    """Followers refuse it, so it is damage."""
    await with_records(cluster)
    log = cluster[1].partition().log
    segment = log.segments.active
    _, position = segment.find(1) or (0, 0)
    flip(Path(segment.file.path), position + 15)
    await verify(cluster[1], 1)
    (damaged,) = segment.damaged
    assert (damaged.offset_first, damaged.offset_end) == (1, 2)
    assert "epoch 1 where 0 was expected" in damaged.problem
    assert cluster[1].replicas.damaged.look()


@on_cluster(count=3)
async def test_damage_that_goes_with_its_segment_is_forgotten(cluster: Cluster) -> None:
    state = await with_records(cluster)
    broker = cluster[1]
    await damage(broker)
    broker.partition().log.truncate(0)
    assert not broker.replicas.damaged.look()
    assert broker.replicas.damaged.judge(state, live=ISR) is Verdict.TAKE


@on_cluster(count=3)
async def test_damage_that_goes_while_it_is_to_be_set_aside(cluster: Cluster) -> None:
    """Whoever had to be waited for, as he was compacting the log, has removed it."""
    without = await with_one_out_of_sync(cluster)
    broker = cluster[2]
    await damage(broker)
    log, replicas = broker.partition().log, broker.replicas
    replicas.uses.begin(log, Use.COMPACTS)
    telling = asyncio.ensure_future(told(broker, without))
    await until(lambda: KEY not in replicas.partitions)
    for segment in log.segments:
        segment.note_damage(())
    replicas.damaged.look()
    replicas.uses.end(log, Use.COMPACTS)
    assert await telling == {KEY: ErrorCode.NONE}
    await cluster.until_equal()


@on_cluster(count=3)
async def test_the_copy_does_not_inherit_the_damage(cluster: Cluster) -> None:
    """Its segments have the same offsets and sizes as those that are remembered."""
    without = await with_one_out_of_sync(cluster)
    broker = cluster[2]
    path = broker.log_dirs.holding(broker.partition().log).path
    await damage(broker)
    scrubber = Scrubber(broker.replicas, broker.config, broker.runtime)
    (data_dir,) = [d for d in broker.log_dirs.online if d.path == path]
    scrubber.restore(data_dir)
    broker.replicas.logs.prefer_dir(KEY, path)
    assert await told(broker, without) == {KEY: ErrorCode.NONE}
    await cluster.until_equal()
    await scrubber.forget_what_is_gone(data_dir)
    Scrubber(broker.replicas, broker.config, broker.runtime).restore(data_dir)
    assert not any(segment.damaged for segment in broker.partition().log.segments)


def test_what_was_looked_at_is_left_alone_for_longer_and_longer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A follower whose disk is full asks for the same for hours."""
    runtime = Runtime.system()
    clock = LeapingClock(runtime)
    reports = DamageReports(clock)

    class Kept:
        topic, partition = TOPIC, 0

    kept = Kept()
    looked_at, silence_ms = 0, SILENCE_MS
    with caplog.at_level(logging.WARNING):
        for _ in range(10):
            reports.report(kept, 5, "somebody can't take them")  # type: ignore[arg-type]
            reports.report(kept, 6, "so")  # type: ignore[arg-type]
            looked_at += len(reports._waiting)
            reports.verified(kept, 5, is_sound=True)  # type: ignore[arg-type]
            reports.report(kept, 5, "so")  # type: ignore[arg-type]
            assert not reports._waiting
            clock.moved_ms += silence_ms + 1
            silence_ms = min(2 * silence_ms, SILENCE_MAX_MS)
    assert looked_at == 10
    runtime.close()
