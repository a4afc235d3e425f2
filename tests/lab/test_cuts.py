"""Each kind of cut under load: nothing is lost, no two logs differ, what is due happens and heals.

`make test` has four kinds of `cuts.KINDS` once for 8 s on one cluster. `make soak` has all
seven 20 times for 30 s, `cuts.MORE_KINDS` less often, and two kinds three times for 90 s with
Kafka's own time-outs.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.lab.cluster import TICK_TIME_MS, Cluster
from tests.lab.cuts import BY_NAME, KINDS, MORE_KINDS, PARTITIONS, Kind, Limits, inflict, make_topic
from tests.lab.soak import Progress
from tests.lab.verify.workload import Workload

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.network]

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
WRITERS: Final = ("librdkafka", "java")
LASTING_S: Final = 8.0
FEW: Final = ("leader from followers", "leader from zookeeper", "leader from all", "one way")
"""The kinds of `make test`: with them ISRs shrink, leaders change, and do not."""
# What is acknowledged at least for each cut, around it and while it lasts: a run with less does not
# count. Machines under load had eight times as much.
ACKED: Final = 1000
ACKED_AROUND: Final = 200
"""Where nothing is while it lasts, or nothing need be."""
SOAK_TIMES: Final = 20
# Less than the writers' two minutes. Between cuts there is hardly a second: a partition that does
# not go on in it waits through the next cut. After two minutes librdkafka gives its records up and
# raises its epoch, and then it may write others twice.
ROUND: Final = 3
MORE_TIMES: Final = 5
SOAK_LASTING_S: Final = 30.0
# What Kafka has when nothing is set, and the same limits in proportion to it.
SLOW_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
    "replica.socket.timeout.ms": "30000",
    "controller.socket.timeout.ms": "30000",
}
SLOW_LIMITS: Final = Limits(shrunk_s=18 + 30 + 15, led_s=18 + 2.5, full_s=60, stop_s=9)
SLOW_TIMES: Final = 3
SLOW_LASTING_S: Final = 90.0
# ZooKeeper grants sessions of up to twenty ticks.
SLOW_TICK_MS: Final = 1000


class Cut(NamedTuple):
    """What came of a number of cuts."""

    wrong: list[str]
    acknowledged: int
    lost_packets: int


def cut(lab: Cluster, kinds: Sequence[Kind], lasting_s: float, limits: Limits | None = None) -> Cut:
    """One after the other under one load, then read everything back and compare the logs."""
    lab.start_zookeeper()
    lab.start()
    make_topic(lab, TOPIC)
    wrong: list[str] = []
    lost_packets = 0
    with Workload(lab, TOPIC, partitions=PARTITIONS, writers=WRITERS, create=False) as load:
        for kind in kinds:
            times = inflict(lab, TOPIC, load, kind, lasting_s)
            log.info("%s: %s", kind.name, times.figures())
            wrong += times.wrong(limits or Limits())
            lost_packets += times.hits
    wrong += load.verify()
    planned = sum(ACKED if kind.goes_on else ACKED_AROUND for kind in kinds)
    wrong += load.missing(acknowledged=planned)
    lab.settle()
    wrong += load.compare_logs()
    return Cut(wrong, load.acknowledged, lost_packets)


def cut_often(
    directory: Path,
    kind: Kind,
    times: int,
    lasting_s: float,
    *,
    name: str,
    settings: Mapping[str, str] | None = None,
    limits: Limits | None = None,
    tick_time_ms: int = TICK_TIME_MS,
) -> None:
    """Rounds of some, each on a new cluster, as many as are left to do."""
    with Progress(f"cuts-{name}-{kind.name.replace(' ', '-')}", times) as progress:
        while progress.left:
            round_of = min(ROUND, progress.left)
            with Cluster(
                "odradek",
                directory=directory / str(progress.done),
                network=True,
                settings=settings,
                tick_time_ms=tick_time_ms,
            ) as lab:
                done = cut(lab, [kind] * round_of, lasting_s, limits)
            assert done.wrong == []
            counts = {"acknowledged": done.acknowledged, "packets_hit": done.lost_packets}
            progress.add(round_of, **counts)


@pytest.mark.timeout(600)
def test_a_few_cuts(tmp_path: Path) -> None:
    with Cluster("odradek", directory=tmp_path, network=True) as lab:
        assert cut(lab, [BY_NAME[name] for name in FEW], LASTING_S).wrong == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("kind", "times"),
    [*((kind, SOAK_TIMES) for kind in KINDS), *((kind, MORE_TIMES) for kind in MORE_KINDS)],
    ids=lambda given: given.name if isinstance(given, Kind) else "",
)
def test_many_cuts(kind: Kind, times: int, tmp_path: Path) -> None:
    cut_often(tmp_path, kind, times, SOAK_LASTING_S, name="short")


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["leader from all", "leader from zookeeper"])
def test_long_cuts_with_the_defaults(name: str, tmp_path: Path) -> None:
    cut_often(
        tmp_path,
        BY_NAME[name],
        SLOW_TIMES,
        SLOW_LASTING_S,
        name="long",
        settings=SLOW_SETTINGS,
        limits=SLOW_LIMITS,
        tick_time_ms=SLOW_TICK_MS,
    )
