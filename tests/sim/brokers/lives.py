"""Letting whole clusters live, one for each seed."""

import asyncio
import contextlib
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from odradek.protocol.messages.k19_create_topics import CreateTopicsRequest
from tests.sim.client import Client
from tests.sim.group_members import GroupHistory, Member
from tests.sim.loop import Outcome, SimLoop, simulate
from tests.sim.process import HOST
from tests.support.messages import creatable

from .clients import EVENTS, TABLE, Clients
from .cluster import SimCluster
from .settled import check_replicas, trouble, trouble_under_load
from .storm import Storm

PARTITIONS: Final = 2
ACTIONS: Final = 12
SETTLES_WITHIN_S: Final = 60
COMPACTED: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": "300",
}
LOOK_S: Final = 0.1
GROUP_SLACK_MS: Final = 10_000
"""Appends wait for followers, which may be held up, or for the controller."""


class Life(NamedTuple):
    """How much happened."""

    happened: Counter[str]
    records: int
    updates: int
    generations: int
    controllers: int


def live_once(seed: int, directory: Path) -> Outcome[Life]:
    """One cluster's life, with all checks; whatever is wrong with it names the seed."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    with faults_heard():
        return simulate(lambda loop: _live(loop, directory), seed)


def _settings(loop: SimLoop) -> dict[str, str]:
    choose = loop.random.choice
    return {
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": choose(("0", "100")),
        "group.min.session.timeout.ms": "100",
        "log.cleaner.backoff.ms": "200",
        "log.flush.offset.checkpoint.interval.ms": choose(("100", "60000")),
        "log.index.interval.bytes": choose(("0", "100", "4096")),
        "log.segment.bytes": choose(("700", "1500", "20000")),
        "log.segment.delete.delay.ms": choose(("0", "1000")),
        "min.insync.replicas": "2",
        "odradek.flush.ms": choose(("50", "10000")),
        "odradek.scrub.interval.ms": "0",
        "offsets.topic.num.partitions": "2",
        "offsets.topic.segment.bytes": choose(("2000", "104857600")),
        "replica.fetch.backoff.ms": "100",
        "replica.lag.time.max.ms": choose(("900", "2000")),
    }


async def _live(loop: SimLoop, directory: Path) -> Life:
    cluster = SimCluster(loop, directory, loop.random.choice((3, 3, 4)), _settings(loop))
    await cluster.start()
    await _create_topics(cluster)
    clients, group = Clients(cluster, PARTITIONS), GroupHistory(PARTITIONS, in_cluster=True)
    storm = Storm(cluster, PARTITIONS)
    at_work = [
        *(clients.write_once(f"once{n}") for n in range(2)),
        *(clients.follow(partition) for partition in range(PARTITIONS)),
        *(Member(loop, cluster, group, f"m{n}", slack_ms=GROUP_SLACK_MS).live() for n in range(2)),
        clients.write("plain"),
        clients.update("update"),
        clients.follow_table(),
        storm.administer(),
    ]
    working = [loop.create_task(work) for work in at_work]
    await storm.rage(ACTIONS)
    await storm.calm()
    await _until_none(trouble_under_load, cluster)
    clients.history.is_over = group.is_over = True
    await asyncio.gather(*working)
    await _until_none(trouble, cluster)
    await clients.check_waiting()
    await _until_none(trouble, cluster)
    records = await clients.check_logs()
    check_replicas(cluster, clients)
    await Member(loop, cluster, group, "last").check_committed()
    controllers = cluster.controller_epoch
    await cluster.stop()
    return Life(
        storm.happened,
        records,
        len(clients.past.acknowledged),
        len(group.generations),
        controllers,
    )


async def _create_topics(cluster: SimCluster) -> None:
    topics = [
        creatable(EVENTS, PARTITIONS, factor=3),
        creatable(TABLE, 1, factor=3, configs=COMPACTED),
    ]
    client = await Client.connect(cluster.controller_port, HOST)
    answer = await client.ask(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
    assert not any(topic.error_code for topic in answer.topics), answer
    await client.close()


async def _until_none(look: Callable[[SimCluster], str | None], cluster: SimCluster) -> None:
    """Wait until nothing is still to come."""
    deadline_s = cluster.loop.time() + SETTLES_WITHIN_S
    while (what := look(cluster)) is not None:
        assert cluster.loop.time() < deadline_s, f"the cluster does not settle: {what}"
        await asyncio.sleep(LOOK_S)


class _Faults(logging.Handler):
    """Ends the simulation when an exception is logged, or anything CRITICAL.

    A request, a task or a controller has failed then, or a log directory is taken offline.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Hand on the exception, if there is one; nobody reads the rest."""
        if record.exc_info or record.levelno >= logging.CRITICAL:
            error = record.exc_info[1] if record.exc_info else None
            context = {"message": record.getMessage(), "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


@contextlib.contextmanager
def faults_heard() -> Iterator[None]:
    """What the brokers log as a fault ends the simulation."""
    logger, handler = logging.getLogger("odradek"), _Faults()
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate


def catch(seeds: Iterable[int], directory: Path) -> tuple[int, str] | None:
    """The first seed whose cluster is not as it should be, and what is wrong with it."""
    for seed in seeds:
        try:
            live_once(seed, directory)
        except Exception as error:  # noqa: BLE001 - a bug may show as anything
            return seed, repr(error)
    return None
