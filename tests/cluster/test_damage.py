"""A disk changes what a leader has written: the others have it, and are asked for it.

The cluster must come to hold the same bytes on all replicas again, with every acknowledged record,
by itself, while a producer writes.
"""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.lab import admin
from tests.lab.cluster import PATIENT
from tests.lab.writer import Writer, misread, read_all
from tests.support.messages import records_in
from tests.support.waiting import until
from tests.wire.clients import librdkafka

from .clusters import BROKERS, KINDS, PARAMS, Cluster

pytestmark = [pytest.mark.wire, pytest.mark.timeout(300)]

RECORD: Final = b"r" * 200
RECORDS: Final = 50
HEADER_BYTES: Final = 61
SETTINGS: Final = {
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "100",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    # The damage alone moves leaders, and whoever lives is in sync and can take over, also while the
    # machine stands still.
    **PATIENT,
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damage")


@pytest.fixture(scope="module", params=PARAMS)
def cluster(request: pytest.FixtureRequest, root: Path) -> Iterator[Cluster]:
    directory = root / request.param
    directory.mkdir()
    with KINDS[request.param](directory, SETTINGS) as cluster:
        yield cluster


def directories(root: Path, broker: int, topic: str) -> list[Path]:
    """Where the replica of partition 0 lies, and those that were set aside."""
    return sorted(p for p in root.rglob(f"{topic}-0*") if f"broker-{broker}" in p.parts)


def segments(root: Path, broker: int, topic: str) -> list[Path]:
    return sorted(directories(root, broker, topic)[0].glob("*.log"))


def contents(root: Path, broker: int, topic: str) -> bytes:
    """What a log holds; read anew if a segment goes meanwhile (retention, a replica set aside)."""
    while True:
        with contextlib.suppress(FileNotFoundError):
            return b"".join(path.read_bytes() for path in segments(root, broker, topic))


def write(cluster: Cluster, topic: str, count: int, acks: str = "all") -> list[bytes]:
    """One record a batch; all are acknowledged."""
    settings: dict[str, str | float | bool] = {"acks": acks, "linger.ms": 0, "log_level": 0}
    producer = Producer(librdkafka(cluster.bootstrap_servers, **settings))
    values = [b"%d %s" % (number, RECORD) for number in range(count)]
    failed: list[object] = []
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=lambda e, _: failed.append(e))
        producer.flush(30)
    assert failed == [None] * count
    return values


def flip(path: Path, position: int) -> None:
    """One bit of a file that a broker has open."""
    with path.open("r+b", buffering=0) as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 1]))


def test_a_leader_with_damage_gives_way(cluster: Cluster, root: Path) -> None:
    where = root / cluster.kind
    topic = "flipped"
    admin.create_topic(cluster, topic, assignment=[[0, 1, 2]])
    cluster.settle(topic)
    cluster.kill(2, expire=True)
    values = write(cluster, topic, RECORDS)
    (path,) = segments(where, 0, topic)
    flip(path, path.stat().st_size // 2)
    with Writer(cluster.bootstrap_servers, topic, 1) as writer:
        cluster.start(2)
        cluster.settle(topic)
        # Not before a leader that was dead when it was elected would have been found out.
        until(lambda: len(directories(where, 0, topic)) > 1, "the damage is set aside", 60)
        cluster.settle(topic)
        assert cluster.leader(topic, 0) != 0
    assert not writer.failed
    acknowledged = [*values, *writer.acknowledged[0]]
    assert misread(acknowledged, read_all(cluster.bootstrap_servers, topic, 1)[0]) == []
    until(lambda: len({contents(where, b, topic) for b in BROKERS}) == 1, "logs are equal")
    log = cluster.log()
    assert log.count("replica damaged") == log.count("damaged replica given up") == 1
    assert log.count("damaged replica set aside") == 1


def test_directories_that_are_lost(cluster: Cluster, root: Path) -> None:
    """One is emptied while its broker is down; what was acknowledged is copied back."""
    where = root / cluster.kind
    topic = "lost"
    admin.create_topic(cluster, topic, assignment=[[0, 1, 2]])
    cluster.settle(topic)
    with Writer(cluster.bootstrap_servers, topic, 1, pause_s=0.002) as writer:
        until(lambda: len(writer.acknowledged[0]) > RECORDS, "something is written")
        for victim in (0, 2):  # the leader, then a follower
            cluster.kill(victim, expire=True)
            until(lambda: cluster.leader(topic, 0) in cluster.running, "somebody leads")
            for directory in directories(where, victim, topic):
                shutil.rmtree(directory)
            cluster.start(victim)
            cluster.settle(topic)
    assert not writer.failed
    found = read_all(cluster.bootstrap_servers, topic, 1)[0]
    assert misread(writer.acknowledged[0], found) == []
    until(lambda: len({contents(where, b, topic) for b in BROKERS}) == 1, "logs are equal")


def test_a_new_replica_of_a_log_that_has_moved_on(cluster: Cluster, root: Path) -> None:
    """Segments go before it is there, and while it copies."""
    where = root / cluster.kind
    topic = "grown"
    configs = {"segment.bytes": "32768", "retention.bytes": "98304", "min.insync.replicas": "1"}
    admin.create_topic(cluster, topic, assignment=[[0]], configs=configs)
    cluster.settle(topic)
    with Writer(cluster.bootstrap_servers, topic, 1, pause_s=0.0005) as writer:
        until(lambda: segments(where, 0, topic)[0].name[:20].strip("0"), "the log start moves")
        admin.reassign(cluster, {(topic, 0): [0, 1, 2]})

        def everywhere() -> bool:
            seen = [view[topic, 0] for view in cluster.partitions() if (topic, 0) in view]
            return bool(seen) and all(set(s.replicas) == set(s.isr) == {*BROKERS} for s in seen)

        until(everywhere, "all have it, and are in sync")
    assert not writer.failed

    def tails() -> set[bytes]:
        return {segments(where, broker, topic)[-1].read_bytes() for broker in BROKERS}

    until(lambda: len(tails()) == 1, "logs end equally")
    kept = records_in(contents(where, 0, topic))
    assert kept[0][0] > 0
    assert [value for _, value in kept] == writer.acknowledged[0][kept[0][0] :]
