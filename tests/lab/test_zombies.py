"""A leader, a controller, a coordinator stand still (SIGSTOP) for longer than their session.

When they wake they do nothing in an office that others have now; nothing acknowledged is lost, and
the replicas' logs are the same.
"""

import logging
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.cluster.txn_log import read_log, violations
from tests.lab.cluster import Cluster
from tests.lab.cuts import PARTITIONS, make_topic
from tests.lab.soak import Progress
from tests.lab.verify.workload import Workload
from tests.lab.zombies import OFFICES, SETTINGS, Round, make_topics, stand_still

pytestmark = [pytest.mark.java, pytest.mark.wire]

log = logging.getLogger(__name__)

TOPIC: Final = "kept"
WRITERS: Final = ("librdkafka", "java")
SOAK_ROUNDS: Final = 50
SOAK_ROUND_OF: Final = 10
# In each round; a run with less does not count.
ACKED: Final = 500


class Stood(NamedTuple):
    """What came of a number of rounds."""

    wrong: list[str]
    acknowledged: int


def stand_still_often(lab: Cluster, directory: Path, rounds: int) -> Stood:
    """One office after the other, then read everything back and compare the logs."""
    lab.start_zookeeper()
    lab.start()
    make_topic(lab, TOPIC)
    make_topics(lab)
    done: list[Round] = []
    with Workload(lab, TOPIC, partitions=PARTITIONS, writers=WRITERS, create=False) as load:
        for number in range(rounds):
            done.append(stand_still(lab, TOPIC, load, OFFICES[number % len(OFFICES)], number))
            log.info("%s", done[-1])
    wrong = [what for each in done for what in each.wrong] + load.verify()
    wrong += load.missing(acknowledged=rounds * ACKED)
    lab.settle()
    wrong += load.compare_logs()
    lab.stop_zookeeper()
    txns = read_log(directory)
    assert any(op.what == "check" for txn in txns for op in txn.ops)
    return Stood(wrong + violations(txns), load.acknowledged)


@pytest.mark.timeout(400)
def test_zombies(tmp_path: Path) -> None:
    with Cluster("odradek", directory=tmp_path, settings=SETTINGS) as lab:
        done = stand_still_often(lab, tmp_path, len(OFFICES))
    log.info("%s", done)
    assert done.wrong == []


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_many_zombies(tmp_path: Path) -> None:
    with Progress("zombies", SOAK_ROUNDS) as progress:
        while progress.left:
            rounds = min(SOAK_ROUND_OF, progress.left)
            directory = tmp_path / str(progress.done)
            with Cluster("odradek", directory=directory, settings=SETTINGS) as lab:
                done = stand_still_often(lab, directory, rounds)
            assert done.wrong == []
            progress.add(rounds, acknowledged=done.acknowledged)
