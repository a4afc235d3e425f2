"""Transactions of three brokers: over several leaders, and while brokers stop, die and come back.

One seed: ODRADEK_SIM_SEED=7 pytest tests/sim/brokers/test_transactions.py.
"""

import asyncio
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Final

import pytest

from odradek.broker.core.transactions.states import PREPARED
from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from tests.lab.soak import Progress
from tests.seeds import seeds
from tests.sim.client import Client
from tests.sim.loop import SimLoop, simulate
from tests.sim.process import HOST
from tests.support.messages import creatable

from .clients import EVENTS
from .cluster import SimCluster
from .lives import faults_heard
from .producers import TransactionalProducer, check_transactions, read_committed, unsettled
from .settled import trouble, trouble_under_load
from .storm import Storm

MANY: Final = 1
SOAK_SEEDS: Final = 500
AT_ONCE: Final = 20
PARTITIONS: Final = 3
ACTIONS: Final = 6
SETTLES_WITHIN_S: Final = 90
TIMEOUT_MS: Final = 3_000
SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "min.insync.replicas": "2",
    "odradek.flush.ms": "50",
    "odradek.scrub.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "replica.fetch.backoff.ms": "100",
    "replica.lag.time.max.ms": "900",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "transaction.state.log.num.partitions": "2",
}


async def until_none(look: Callable[[SimCluster], str | None], cluster: SimCluster) -> None:
    deadline_s = cluster.loop.time() + SETTLES_WITHIN_S
    while (what := look(cluster)) is not None:
        assert cluster.loop.time() < deadline_s, f"the cluster does not settle: {what}"
        await asyncio.sleep(0.1)


async def started(loop: SimLoop, directory: Path, version: int = 0) -> SimCluster:
    settings = {**SETTINGS, "odradek.transaction.version": str(version)}
    cluster = SimCluster(loop, directory, 3, settings)
    await cluster.start()
    client = await Client.connect(cluster.controller_port, HOST)
    topics = [creatable(EVENTS, PARTITIONS, factor=3)]
    answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert not any(topic.error_code for topic in answer.topics), answer
    await client.close()
    return cluster


# One broker at the worst moment: the decision is acknowledged, and a leader has no marker yet.


def leader_of(cluster: SimCluster, topic: str, partition: int) -> int:
    return cluster.store.states[topic, partition][1].leader


def coordinator_of(cluster: SimCluster) -> int:
    """Who coordinates the only id."""
    (found,) = (
        broker_id
        for broker_id in cluster.brokers
        for shard in cluster.node(broker_id).transactions.shards()
        for _ in shard.ids
    )
    return found


def is_held(cluster: SimCluster, partition: int) -> bool:
    """Whether the end is decided, and is not known to be carried out in the partition."""
    shard = cluster.node(coordinator_of(cluster)).transactions.shard_of("a")
    transaction = shard.describe("a")
    in_prepare = transaction.known.state in PREPARED
    return in_prepare and (EVENTS, partition) in transaction.open_partitions


async def interrupted(
    cluster: SimCluster,
    producer: TransactionalProducer,
    end: Callable[[int], Awaitable[object]],
    *,
    whom: str,
    commits: bool,
) -> None:
    """End a transaction while the way to one leader is held up, and end that broker, or another."""
    coordinator = coordinator_of(cluster)
    leaders = {p: leader_of(cluster, EVENTS, p) for p in range(PARTITIONS)}
    partition, leader = next((p, each) for p, each in leaders.items() if each != coordinator)
    await producer.begin(range(PARTITIONS))
    cluster.hold(leader, 2_000)
    await producer.finish(commits=commits)
    assert is_held(cluster, partition)
    gone = leader if whom == "leader" else coordinator
    await end(gone)
    await until_none(lambda cluster: unsettled(cluster) or not_elected(cluster, gone), cluster)
    await cluster.start_broker(gone)
    await until_none(trouble, cluster)


def not_elected(cluster: SimCluster, gone: int) -> str | None:
    states = cluster.store.states
    left = [key for key, (_, state) in states.items() if state.leader == gone]
    return f"{gone} still leads {left}" if left else None


async def interrupt_all(loop: SimLoop, directory: Path, version: int) -> None:
    cluster = await started(loop, directory, version)
    producer = TransactionalProducer(cluster, "a", "a", timeout_ms=60_000, version=version)
    await producer.start()

    async def kill(broker_id: int) -> None:
        await cluster.kill_broker(broker_id, expire=True)

    for whom, end, commits in (
        ("leader", kill, True),
        ("leader", cluster.stop_broker, False),
        ("coordinator", kill, False),
        ("coordinator", cluster.stop_broker, True),
    ):
        await interrupted(cluster, producer, end, whom=whom, commits=commits)
    await producer.close()
    seen = {partition: await read_committed(cluster, partition) for partition in range(PARTITIONS)}
    check_transactions([producer], seen)
    assert [each.is_committed for each in producer.transactions] == [True, False, False, True]
    await cluster.stop()


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 2])
def test_a_leader_or_the_coordinator_goes_before_the_markers_are_written(
    version: int, tmp_path: Path
) -> None:
    with faults_heard():
        simulate(lambda loop: interrupt_all(loop, tmp_path / "data", version), 1)


# Storms.


async def live(loop: SimLoop, directory: Path, version: int) -> Counter[str]:
    """A storm; afterwards every transaction is there as a whole, or not at all.

    With version 2 some producers speak an older one.
    """
    cluster = await started(loop, directory, version)
    producers = [
        TransactionalProducer(cluster, each, name, timeout_ms=TIMEOUT_MS, version=speaks)
        for each, name, speaks in (
            ("a", "a1", version),
            ("a", "a2", 0),
            ("b", "b1", version),
            ("c", "c1", version),
        )
    ]
    working = [
        loop.create_task(producer.live(range(PARTITIONS), pause_s=pause_s))
        for producer, pause_s in zip(producers, (0.1, 0.6, 0.1, 0.1), strict=True)
    ]
    storm = Storm(cluster, PARTITIONS)
    await storm.rage(ACTIONS)
    await storm.calm()
    await until_none(trouble_under_load, cluster)
    for producer in producers:
        producer.is_over = True
    await asyncio.gather(*working)
    await until_none(trouble, cluster)
    await until_none(unsettled, cluster)
    seen = {partition: await read_committed(cluster, partition) for partition in range(PARTITIONS)}
    check_transactions(producers, seen)
    await cluster.stop()
    return sum((producer.happened for producer in producers), Counter())


def live_once(seed: int, directory: Path, version: int) -> Counter[str]:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with faults_heard():
        return simulate(lambda loop: live(loop, directory, version), seed).value


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("seed", seeds(1, MANY))
def test_transactions_are_whole_in_a_storm(seed: int, version: int, tmp_path: Path) -> None:
    happened = live_once(seed, tmp_path / "data", version)
    assert happened["committed"] > 5
    assert happened["aborted"] > 0


def live_all(lives: range, directory: Path) -> None:
    for seed in lives:
        live_once(seed, directory, 2 * (seed % 2))


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_transactions_are_whole_in_many_storms(tmp_path: Path) -> None:
    """In forks, one after the other: what a killed process held is never freed."""
    forks = get_context("fork").Pool(1, maxtasksperchild=1)
    with Progress("transactions-of-brokers", SOAK_SEEDS) as progress, forks:
        while progress.left:
            first, count = MANY + progress.done, min(AT_ONCE, progress.left)
            forks.apply(live_all, (range(first, first + count), tmp_path / "data"))
            progress.add(count)
