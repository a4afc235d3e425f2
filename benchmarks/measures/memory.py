"""Resident memory: idle with one topic, and after gigabytes were written through it."""

import time

from benchmarks import brokers, topics
from benchmarks.brokers import Kind
from benchmarks.measure import MEGABYTES, Measure, Metric, Sample, Stage, Target


class Memory(Measure):
    """A fresh broker; its VmRSS some seconds after the ready line, then after the load."""

    name = "memory"
    title = "resident memory; loaded: after 4 GB written (quick: 0.5 GB)"
    metrics = (
        Metric("idle", "idle, one topic", MEGABYTES, "lower", Target("value", "<", 45e6)),
        Metric("loaded", "loaded", MEGABYTES, "lower"),
    )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """Start, wait, look; write, look."""
        with brokers.running(kind, stage.directory()) as broker:
            topic = topics.create(broker.address, "memory")
            time.sleep(stage.scale.idle_s)
            idle_bytes = broker.memory_bytes()
            topics.fill(
                broker.address,
                topic,
                size_bytes=stage.scale.load_bytes,
                batch_size_bytes_max=128 << 10,
            )
            return {"idle": idle_bytes, "loaded": broker.memory_bytes()}
