"""A disk changes what a leader has written: the others have it, and are asked for it.

The cluster must come to hold the same bytes on all replicas again, with every acknowledged record,
by itself, while a producer writes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from tests.lab import admin
from tests.lab.waiting import until
from tests.wire.clients import librdkafka

from .churn import Writer, misread, read_all
from .clusters import BROKERS, KINDS, PARAMS, Cluster

pytestmark = [pytest.mark.wire, pytest.mark.timeout(120)]

RECORD: Final = b"r" * 200
RECORDS: Final = 50
HEADER_BYTES: Final = 61
SETTINGS: Final = {"replica.fetch.backoff.ms": "100", "replica.fetch.wait.max.ms": "100"}


@pytest.fixture(params=PARAMS)
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    with KINDS[request.param](tmp_path, SETTINGS) as cluster:
        yield cluster


def directories(root: Path, broker: int, topic: str) -> list[Path]:
    """Where the replica of partition 0 lies, and those that were set aside."""
    return sorted(p for p in root.rglob(f"{topic}-0*") if f"broker-{broker}" in p.parts)


def segments(root: Path, broker: int, topic: str) -> list[Path]:
    return sorted(directories(root, broker, topic)[0].glob("*.log"))


def contents(root: Path, broker: int, topic: str) -> bytes:
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


def test_a_leader_with_damage_gives_way(cluster: Cluster, tmp_path: Path) -> None:
    topic = "flipped"
    admin.create_topic(cluster, topic, assignment=[[0, 1, 2]])
    cluster.settle(topic)
    cluster.kill(2, expire=True)
    values = write(cluster, topic, RECORDS)
    (path,) = segments(tmp_path, 0, topic)
    flip(path, path.stat().st_size // 2)
    with Writer(cluster.bootstrap_servers, topic, 1) as writer:
        cluster.start(2)
        cluster.settle(topic)
        until(lambda: len(directories(tmp_path, 0, topic)) > 1, "the damage is set aside")
        cluster.settle(topic)
        assert cluster.leader(topic, 0) != 0
    assert not writer.failed
    acknowledged = [*values, *writer.acknowledged[0]]
    assert misread(acknowledged, read_all(cluster.bootstrap_servers, topic, 1)[0]) == []
    until(lambda: len({contents(tmp_path, b, topic) for b in BROKERS}) == 1, "logs are equal")
    log = cluster.log()
    assert log.count("replica damaged") == log.count("damaged replica given up") == 1
    assert log.count("damaged replica set aside") == 1
