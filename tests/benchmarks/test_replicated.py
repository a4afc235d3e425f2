"""The clusters under measurement: what is said of them is so."""

from pathlib import Path

import pytest

from benchmarks import topics
from benchmarks.brokers import Kind
from benchmarks.replicated import PARTITIONS, TIMEOUT_S, Layout, running
from tests.support.waiting import until

pytestmark = pytest.mark.wire


def test_an_added_replica_copies_what_was_written(tmp_path: Path) -> None:
    with running(Kind.ODRADEK, Layout.ONE_PROCESS, tmp_path / "cluster") as cluster:
        cluster.create("copied", replicas=2)
        assert cluster.in_sync("copied") == 2 * PARTITIONS
        used_s = cluster.cpu_s()
        written_bytes = 0
        for number, leader in cluster.leaders("copied").items():
            filled = topics.fill(
                leader,
                topics.Topic("copied", bytes(16)),
                partition=number,
                size_bytes=300_000,
                batch_size_bytes_max=100_000,
                acks=-1,
            )
            written_bytes += filled.size_bytes
        assert written_bytes >= 300_000 * PARTITIONS
        assert cluster.copied_bytes("copied", 2) == 0
        cluster.add_replicas("copied")
        everywhere = 3 * PARTITIONS
        until(lambda: cluster.in_sync("copied") == everywhere, "all are in sync", TIMEOUT_S)
        assert [cluster.copied_bytes("copied", broker) for broker in range(3)] == [
            written_bytes
        ] * 3
        assert cluster.cpu_s() >= used_s
        assert 10e6 < cluster.pss_bytes() < 200e6
    assert not (tmp_path / "cluster").exists()
