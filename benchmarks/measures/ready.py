"""From exec to the ready line, and to the first answer of ApiVersions, in an empty directory."""

import time

from benchmarks import brokers, wire
from benchmarks.brokers import Kind
from benchmarks.connection import call_once
from benchmarks.measure import SECONDS, Measure, Metric, Sample, Scale, Stage, Target


class Ready(Measure):
    """A start of each broker; the first of each only warms the page cache."""

    name = "ready"
    title = "start in an empty directory"
    metrics = (
        Metric("line", "exec to ready line", SECONDS, "lower", Target("value", "<", 0.3)),
        Metric("answer", "exec to ApiVersions", SECONDS, "lower"),
    )
    warm_ups = 1

    def rounds(self, scale: Scale) -> int:
        """More than elsewhere: a start is short."""
        return scale.ready_rounds

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """Start, ask, stop."""
        with brokers.running(kind, stage.directory()) as broker:
            began = time.perf_counter()
            call_once(broker.address, wire.api_versions_request())
            answered_s = time.perf_counter() - began
            return {"line": broker.ready_s, "answer": broker.ready_s + answered_s}
