"""Produce of one record at a time, acks=1: the latency of a request and the rate of small ones."""

from benchmarks.brokers import Kind
from benchmarks.connection import Address
from benchmarks.floor import floor_server
from benchmarks.measure import MICROSECONDS, PER_S, Measure, Metric, Sample, Stage, Target
from benchmarks.programs import run_python


class OneRecord(Measure):
    """One connection with a fixed number of requests in flight for some seconds."""

    kinds = (Kind.KAFKA, Kind.ODRADEK, Kind.FLOOR)
    warm_ups = 2  # a JVM takes thousands of requests to compile this path
    busy = True

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.name = f"one_record_{depth}"
        self.title = f"one-record Produce, {depth} in flight"
        rate = Metric("rate", "requests", PER_S, "higher")
        if depth > 1:
            self.metrics = (rate,)
            return
        self.metrics = (
            Metric("rate", "requests", PER_S, "higher", Target("ratio", "≥", 2.0)),
            Metric("p50", "p50", MICROSECONDS, "lower"),
            Metric("p99", "p99", MICROSECONDS, "lower", Target("ratio", "≤", 0.5)),
            Metric("p99_9", "p99.9", MICROSECONDS, "lower"),
        )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One process of the raw client on a topic of its own."""
        if kind is not Kind.FLOOR:
            return self._run(stage, stage.broker(kind).address, stage.new_topic(kind))
        with floor_server(stage.directory()) as address:
            return self._run(stage, address, "floor")

    def _run(self, stage: Stage, address: Address, topic: str) -> Sample:
        return run_python(
            "one_record",
            *("--address", str(address)),
            *("--topic", topic),
            *("--depth", str(self.depth)),
            *("--seconds", str(stage.scale.seconds)),
        )
