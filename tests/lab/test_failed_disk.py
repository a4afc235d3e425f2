"""A log directory fails while its broker runs: the others lead, and it comes back later."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab import admin
from tests.lab.asking import metadata
from tests.lab.brokers import OdradekBroker
from tests.lab.cluster import PATIENT, Cluster
from tests.lab.standstill import Standstill
from tests.lab.writer import Writer, misread, read_all
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.timeout(300)]

TOPIC: Final = "spread"
# At once, that is, and not after a session (10 s) or when a follower counts as late (20 s).
LED_WITHIN_S: Final = 8.0
WRITTEN: Final = 500


class TwoDirectories(OdradekBroker):
    """`log.dirs` in the place of `--data-dir`."""

    def _command(self) -> list[str]:
        command = super()._command()
        place = command.index("--data-dir")
        paths = f"log.dirs={self.directory}/first,{self.directory}/second"
        return [*command[:place], "--set", paths, *command[place + 2 :]]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Cluster]:
    """Broker 1 has two directories, and leads a partition in each."""
    settings = {**PATIENT, "replica.fetch.backoff.ms": "200"}
    with Cluster("odradek", (1, 2), directory=tmp_path, settings=settings) as cluster:
        plain = cluster.brokers[1]
        cluster.brokers[1] = TwoDirectories(1, plain.directory, plain.settings)
        cluster.start_zookeeper()
        cluster.start()
        admin.create_topic(
            cluster, TOPIC, assignment=[[1, 2], [1, 2]], configs={"segment.bytes": "65536"}
        )
        cluster.settle()
        yield cluster


def seen(lab: Cluster, index: int) -> tuple[int, list[int]]:
    """Leader and in-sync set, as broker 2 knows them."""
    partition = metadata(lab.brokers[2].address)["topics"][TOPIC][str(index)]
    return partition["leader"], sorted(partition["isr"])


def test_a_directory_fails_under_load(lab: Cluster) -> None:
    """It is taken away, so that the next segment can't be made."""
    second = lab.brokers[1].directory / "second"
    (lost,) = second.glob(f"{TOPIC}-*")
    index = int(lost.name[-1])
    with Writer(lab.bootstrap_servers, TOPIC, 2, pause_s=0.0002) as writer:
        until(lambda: len(writer.acknowledged[index]) > WRITTEN, "something is written")
        # At once: a directory in which files are made meanwhile can't be removed.
        second.rename(second.with_name("taken-away"))
        until(lambda: "replicas offline" in lab.brokers[1].output, "the disk is found broken")
        with Standstill() as machine:
            failed_s = machine.own_s()
            until(lambda: seen(lab, index) == (2, [2]), "2 leads")
            assert machine.own_s() - failed_s < LED_WITHIN_S
        assert seen(lab, 1 - index) == (1, [1, 2]), "the other directory is well"
        count = len(writer.acknowledged[index])
        until(lambda: len(writer.acknowledged[index]) > count + WRITTEN, "it goes on")
        lab.stop(1)
        lab.start(1)
        lab.settle()
        assert seen(lab, index)[1] == [1, 2]
    assert not writer.failed
    for partition, found in enumerate(read_all(lab.bootstrap_servers, TOPIC, 2)):
        assert misread(writer.acknowledged[partition], found) == []
