"""Damage in clusters of both kinds: Odradek's leader, Kafka's followers and controller, and back.

Kafka's followers ask again for what they find corrupt, as Odradek's do; Kafka's leaders never look.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from odradek.protocol.messages.k00_produce import ProduceResponse
from tests.lab import admin
from tests.lab.asking import ask, metadata
from tests.lab.brokers import KINDS
from tests.lab.cluster import Cluster
from tests.support.messages import batch_of, produce_request, records_in
from tests.support.waiting import until

pytestmark = [pytest.mark.java, pytest.mark.wire, pytest.mark.soak, pytest.mark.timeout(300)]

TOPIC: Final = "mixed"
BATCHES: Final = 20
BACKOFF_MS: Final = 200
TAKING: Final = "odradek.broker.replication.taking"
AGAIN: Final = 10


@pytest.fixture
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    """Brokers 1 to 3 of the kinds that are asked for; 2 is the controller, 3 is down and behind."""
    settings = {
        "replica.fetch.backoff.ms": str(BACKOFF_MS),
        "inter.broker.protocol.version": "3.9",
    }
    with Cluster("odradek", (1, 2, 3), directory=tmp_path, settings=settings) as cluster:
        for broker, kind in enumerate(request.param, start=1):
            plain = cluster.brokers[broker]
            cluster.brokers[broker] = KINDS[kind](broker, plain.directory, plain.settings)
        cluster.start_zookeeper()
        cluster.start(2)
        cluster.start(1, 3)
        admin.create_topic(cluster, TOPIC, assignment=[[1, 2, 3]])
        cluster.settle()
        cluster.kill(3, expire=True)
        until(lambda: state(cluster)[1] == [1, 2], "3 has left")
        yield cluster


def state(lab: Cluster) -> tuple[int, list[int]]:
    """Leader and in-sync set, as broker 2 knows them."""
    partition = metadata(lab.brokers[2].address)["topics"][TOPIC]["0"]
    return partition["leader"], sorted(partition["isr"])


def log_of(lab: Cluster, broker: int) -> Path:
    return lab.brokers[broker].data_dir / f"{TOPIC}-0" / f"{0:020d}.log"


def write_and_flip(lab: Cluster) -> None:
    """Some batches, of which one in the middle is damaged at the leader."""
    for _ in range(BATCHES):
        request = produce_request(TOPIC, {0: batch_of(b"v" * 100)}, acks=-1)
        answer: ProduceResponse = ask(lab.brokers[1].address, request, 9)
        assert answer.responses[0].partition_responses[0].error_code == 0
    path = log_of(lab, 1)
    size_bytes = path.stat().st_size // BATCHES
    with path.open("r+b", buffering=0) as file:
        file.seek(BATCHES // 2 * size_bytes + size_bytes - 20)
        file.write(b"?")


@pytest.mark.parametrize("lab", [("odradek", "kafka", "kafka")], indirect=True)
def test_our_leader_gives_way_to_theirs(lab: Cluster) -> None:
    write_and_flip(lab)
    lab.start(3)
    until(lambda: state(lab) == (2, [1, 2, 3]), "all are in sync behind 2")
    assert lab.brokers[1].output.count("damaged replica set aside") == 1
    until(lambda: log_of(lab, 1).read_bytes() == log_of(lab, 2).read_bytes(), "1 is as 2")
    assert len(records_in(log_of(lab, 3).read_bytes())) == BATCHES


def refusals(lab: Cluster, level: str) -> int:
    """How often broker 3 has told of refused batches at one level."""
    return lab.brokers[3].output.count(f"{level} {TAKING}: fetched batches refused")


@pytest.mark.parametrize("lab", [("kafka", "kafka", "odradek")], indirect=True)
def test_our_follower_waits_for_theirs(lab: Cluster) -> None:
    """It takes what is sound, and tells of it once."""
    write_and_flip(lab)
    lab.start(3)
    until(lambda: refusals(lab, "ERROR"), "it is found")
    admin.alter_configs(lab, admin.BROKER_LOGGER, "3", put={TAKING: "DEBUG"}, broker=3)
    until(lambda: refusals(lab, "DEBUG") >= AGAIN, "it is fetched again")
    assert refusals(lab, "ERROR") == 1
    assert len(records_in(log_of(lab, 3).read_bytes())) == BATCHES // 2
    assert state(lab) == (1, [1, 2])
