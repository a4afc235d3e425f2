"""Kafka's own ProducerPerformance: 1 KiB records, as fast as it can.

The floor is the same number of bytes as 128 KiB frames from our raw client: what the sockets and
the files allow, without a Java client that has to make the records.
"""

import re
import time
from dataclasses import dataclass, replace
from typing import Final

from benchmarks import topics
from benchmarks.brokers import Kind
from benchmarks.floor import floor_server
from benchmarks.measure import CPU_WITH_TLS, MB_PER_S, Measure, Metric, Sample, Scale, Stage, Target
from benchmarks.programs import run_java_class

RECORD_SIZE_BYTES: Final = 1024
SUMMARY: Final = re.compile(r"([\d.]+) records/sec \([\d.]+ MB/sec\)")


@dataclass(frozen=True, slots=True)
class Setup:
    """A producer's settings and what they are called."""

    name: str
    title: str
    properties: tuple[str, ...]
    target: Target | None
    tls: bool = False


BATCHES_128K: Final = Setup(
    "produce_128k",
    "Java produce, 1 KiB records; acks=1, 128 KiB batches, not idempotent",
    ("acks=1", "batch.size=131072", "enable.idempotence=false"),
    Target("ratio", "≥", 1.0),
)
BATCHES_128K_TLS: Final = replace(
    BATCHES_128K, name="produce_128k_tls", title=f"{BATCHES_128K.title}; TLS", target=None, tls=True
)
DEFAULTS: Final = Setup(
    "produce_default", "Java produce, 1 KiB records; defaults", (), Target("ratio", "≥", 1.0)
)


class JavaProduce(Measure):
    """The steady state that ProducerPerformance reports after its warm-up records."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.name = setup.name
        self.title = setup.title
        self.metrics = (
            Metric("rate", "bulk produce", MB_PER_S, "higher", setup.target),
            *([CPU_WITH_TLS] if setup.tls else []),
        )
        # The first round of all compiles the broker's way of a Produce (JVM).
        self.warm_ups = 0 if setup is DEFAULTS else 1
        self.kinds = (Kind.KAFKA, Kind.ODRADEK, *([] if setup.tls else [Kind.FLOOR]))

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One run of the tool on a topic of its own."""
        if kind is Kind.FLOOR:
            return self._floor(stage)
        scale, broker, properties = stage.scale, stage.broker(kind), self.setup.properties
        address = broker.address
        if self.setup.tls:
            assert broker.tls_address is not None
            address = broker.tls_address
            properties += stage.certificates.client_properties()
        before_s = broker.cpu_s()
        printed = run_java_class(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--bootstrap-server", str(address)),
            *("--topic", stage.new_topic(kind)),
            *("--num-records", str(scale.produce_records + scale.warm_up_records)),
            *("--warmup-records", str(scale.warm_up_records)),
            *("--record-size", str(RECORD_SIZE_BYTES)),
            *("--throughput", "-1"),
            *(("--command-property", *properties) if properties else ()),
        )
        cpu_s = broker.cpu_s() - before_s
        # The last summary is the steady state's.
        records_per_s = float(SUMMARY.findall(printed)[-1])
        rate = records_per_s * RECORD_SIZE_BYTES
        if not self.setup.tls:
            return {"rate": rate}
        records = scale.produce_records + scale.warm_up_records
        return {"rate": rate, "cpu": cpu_s / (records * RECORD_SIZE_BYTES / 1e9)}

    def _floor(self, stage: Stage) -> Sample:
        with floor_server(stage.directory()) as address:
            began = time.perf_counter()
            filling = topics.fill(
                address,
                topics.Topic("floor", bytes(16)),
                size_bytes=_size_bytes(stage.scale),
                batch_size_bytes_max=128 << 10,
            )
            return {"rate": filling.size_bytes / (time.perf_counter() - began)}


def _size_bytes(scale: Scale) -> int:
    return scale.produce_records * RECORD_SIZE_BYTES
