"""Three brokers, six partitions on all of them, acks=all: a cluster of its own for each sample.

What the brokers of a round cost: memory when idle, bulk produce, latency of one record; and, in a
cluster that has done nothing else, how fast a broker copies what it has nothing of. CPU time is
that of the brokers, without ZooKeeper's.

Each has a cluster of its own because of virtual machines that give free memory back to their host:
pages that are touched first cost several times their copying, and that is what the later one of two
large jobs would measure.
"""

import os
import time

from benchmarks import topics
from benchmarks.brokers import Kind
from benchmarks.busy import busy_cores
from benchmarks.measure import (
    CPU_S_PER_GB,
    MB_PER_S,
    MEGABYTES,
    MICROSECONDS,
    Measure,
    Metric,
    Sample,
    Scale,
    Stage,
    Target,
)
from benchmarks.programs import run_java_class, run_python
from benchmarks.replicated import PARTITIONS, TIMEOUT_S, Layout, Started, running

from .java_produce import RECORD_SIZE_BYTES, SUMMARY

GB = 1e9
IDLE_TOPICS = 3
POLL_S = 0.005
BULK = ("acks=all", "batch.size=131072")
COPIED_BATCH_BYTES = 128 << 10
COPIED = "copied"
AT_LEAST_KAFKA = Target("ratio", "≥", 1.0)
PROMPT = Target("ratio", "≤", 0.7)


class _OnClusters(Measure):
    """One sample is the whole life of a cluster; the other kind's is not up meanwhile.

    In one process there is nothing of Kafka's to compare with, and nothing is aimed at by a ratio.
    """

    def __init__(self, layout: Layout, name: str, what: str) -> None:
        self.layout = layout
        self.in_one = layout is Layout.ONE_PROCESS
        self.name = f"{name}_one_process" if self.in_one else name
        self.kinds = (Kind.ODRADEK,) if self.in_one else (Kind.KAFKA, Kind.ODRADEK)
        where = (
            "three brokers in one process" if self.in_one else "three brokers; against Kafka 3.9.2"
        )
        self.title = f"{where}: {what}"

    def aim(self, target: Target) -> Target | None:
        """What is aimed at beside Kafka."""
        return None if self.in_one else target


class Replication(_OnClusters):
    """Memory when idle, bulk produce, latency of one record."""

    def __init__(self, layout: Layout) -> None:
        """Where the brokers run."""
        super().__init__(layout, "replication", "6 partitions, 3 replicas, min ISR 2, acks=all")
        memory = Target("value", "<", 70e6 if self.in_one else 150e6)
        aim, prompt = self.aim(AT_LEAST_KAFKA), self.aim(PROMPT)
        self.metrics = (
            Metric("idle", "idle, all brokers, Pss", MEGABYTES, "lower", memory),
            Metric("bulk", "Java produce, 128 KiB batches", MB_PER_S, "higher", aim),
            Metric("bulk_cpu", "… CPU of the brokers", CPU_S_PER_GB, "lower"),
            Metric("p50", "one record, p50", MICROSECONDS, "lower", prompt),
            Metric("p99", "one record, p99", MICROSECONDS, "lower", prompt),
            Metric("record_cpu", "… CPU of the brokers a record", MICROSECONDS, "lower"),
        )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """Start, let it idle, write, end."""
        scale = stage.scale
        with running(kind, self.layout, stage.directory()) as cluster:
            for number in range(IDLE_TOPICS):
                cluster.create(f"idle-{number}")
            time.sleep(scale.idle_s)
            sample = {"idle": float(cluster.pss_bytes())}
            _bulk(cluster, "warm-up", scale)
            sample |= _bulk(cluster, "bulk", scale)
            os.sync()
            with busy_cores():
                _one_record(cluster, "warm-one", scale)
                sample |= _one_record(cluster, "one", scale)
            return sample


class CatchUp(_OnClusters):
    """A broker is given a replica of every partition of a topic, and copies all of it."""

    def __init__(self, layout: Layout) -> None:
        """Where the brokers run."""
        super().__init__(layout, "catch_up", "a third replica of 6 partitions")
        aim = self.aim(AT_LEAST_KAFKA)
        self.metrics = (
            Metric("copy", "empty follower catches up", MB_PER_S, "higher", aim),
            Metric("copy_cpu", "… CPU of the brokers", CPU_S_PER_GB, "lower"),
        )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """Start, write what two brokers keep, give it to the third, end."""
        with running(kind, self.layout, stage.directory()) as cluster:
            return _copy(cluster, stage.scale)


def _bulk(cluster: Started, topic: str, scale: Scale) -> dict[str, float]:
    cluster.create(topic)
    used_s, records = cluster.cpu_s(), scale.produce_records + scale.warm_up_records
    printed = run_java_class(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--bootstrap-server", cluster.bootstrap_servers),
        *("--topic", topic),
        *("--num-records", str(records)),
        *("--warmup-records", str(scale.warm_up_records)),
        *("--record-size", str(RECORD_SIZE_BYTES)),
        *("--throughput", "-1"),
        *("--command-property", *BULK),
    )
    used_s = cluster.cpu_s() - used_s
    records_per_s = float(SUMMARY.findall(printed)[-1])  # the last is the steady state's
    return {
        "bulk": records_per_s * RECORD_SIZE_BYTES,
        "bulk_cpu": used_s / (records * RECORD_SIZE_BYTES / GB),
    }


def _one_record(cluster: Started, topic: str, scale: Scale) -> dict[str, float]:
    cluster.create(topic)
    used_s = cluster.cpu_s()
    measured = run_python(
        "one_record",
        *("--address", str(cluster.leaders(topic)[0])),
        *("--topic", topic),
        *("--seconds", str(scale.seconds)),
        *("--acks", "-1"),
    )
    used_s = cluster.cpu_s() - used_s
    return {
        "p50": measured["p50"],
        "p99": measured["p99"],
        "record_cpu": used_s / measured["count"],
    }


def _copy(cluster: Started, scale: Scale) -> dict[str, float]:
    """Bytes a second from the first that are there until all are, and they count as in sync."""
    cluster.create(COPIED, replicas=2)
    size_bytes = 0
    for number, leader in cluster.leaders(COPIED).items():
        filled = topics.fill(
            leader,
            topics.Topic(COPIED, bytes(16)),
            partition=number,
            size_bytes=scale.copy_bytes // PARTITIONS,
            batch_size_bytes_max=COPIED_BATCH_BYTES,
            acks=-1,
        )
        size_bytes += filled.size_bytes
    os.sync()
    brokers = list(cluster.addresses)
    cluster.add_replicas(COPIED)
    deadline = time.monotonic() + TIMEOUT_S
    while not (first_bytes := cluster.copied_bytes(COPIED, brokers[-1])):
        _check(deadline)
    used_s, began_s = cluster.cpu_s(), time.monotonic()
    while cluster.copied_bytes(COPIED, brokers[-1]) < size_bytes:
        _check(deadline)
    took_s = time.monotonic() - began_s
    used_s = cluster.cpu_s() - used_s
    while cluster.in_sync(COPIED) < PARTITIONS * len(brokers):
        _check(deadline)
    copied_bytes = size_bytes - first_bytes
    return {"copy": copied_bytes / took_s, "copy_cpu": used_s / (copied_bytes / GB)}


def _check(deadline: float) -> None:
    if time.monotonic() > deadline:
        raise TimeoutError("the follower does not catch up")
    time.sleep(POLL_S)
