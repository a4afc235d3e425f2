"""Each kind of cut under load: nothing is lost, the cluster does what is due, and heals.

`make test` has each kind of `cuts.KINDS` once for 15 s on one cluster. `make soak` has each of them
20 times for 30 s, `cuts.MORE_KINDS` less often, and two kinds three times for 90 s with Kafka's own
time-outs.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.lab.cluster import Cluster
from tests.lab.cuts import BY_NAME, KINDS, MORE_KINDS, PARTITIONS, Kind, Limits, inflict, make_topic
from tests.lab.verify.workload import Workload

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.network]

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
WRITERS: Final = ("librdkafka", "java")
LASTING_S: Final = 15.0
SOAK_TIMES: Final = 20
MORE_TIMES: Final = 5
SOAK_LASTING_S: Final = 30.0
# What Kafka has when nothing is set, and the same limits in proportion to it.
SLOW_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": "18000",
    "replica.lag.time.max.ms": "30000",
    "replica.socket.timeout.ms": "30000",
    "controller.socket.timeout.ms": "30000",
}
SLOW_LIMITS: Final = Limits(shrunk_s=18 + 30 + 15, led_s=18 + 2.5, full_s=60)
SLOW_TIMES: Final = 3
SLOW_LASTING_S: Final = 90.0
# ZooKeeper grants sessions of up to twenty ticks.
TICK_MS: Final = 1000


def cut(
    lab: Cluster, kinds: Sequence[Kind], lasting_s: float, limits: Limits | None = None
) -> list[str]:
    """One after the other under one load; everything that is wrong in the end."""
    lab.start_zookeeper()
    lab.start()
    make_topic(lab, TOPIC)
    wrong: list[str] = []
    with Workload(lab, TOPIC, partitions=PARTITIONS, writers=WRITERS, create=False) as load:
        for kind in kinds:
            times = inflict(lab, TOPIC, load, kind, lasting_s)
            log.info("%s: %s", kind.name, times.figures())
            wrong += times.wrong(limits or Limits())
    return wrong + load.verify()


@pytest.mark.timeout(400)
def test_each_kind_of_cut(tmp_path: Path) -> None:
    with Cluster("odradek", directory=tmp_path, network=True) as lab:
        assert cut(lab, KINDS, LASTING_S) == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("kind", "times"),
    [*((kind, SOAK_TIMES) for kind in KINDS), *((kind, MORE_TIMES) for kind in MORE_KINDS)],
    ids=lambda given: given.name if isinstance(given, Kind) else "",
)
def test_many_cuts(kind: Kind, times: int, tmp_path: Path) -> None:
    with Cluster("odradek", directory=tmp_path, network=True) as lab:
        assert cut(lab, [kind] * times, SOAK_LASTING_S) == []


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", ["leader from all", "leader from zookeeper"])
def test_long_cuts_with_the_defaults(name: str, tmp_path: Path) -> None:
    with Cluster(
        "odradek", directory=tmp_path, network=True, settings=SLOW_SETTINGS, tick_time_ms=TICK_MS
    ) as lab:
        assert cut(lab, [BY_NAME[name]] * SLOW_TIMES, SLOW_LASTING_S, SLOW_LIMITS) == []
