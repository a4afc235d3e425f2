"""Raw Fetch, span after span, one request in flight: what the broker itself can send."""

from benchmarks.brokers import Kind
from benchmarks.connection import Address
from benchmarks.floor import floor_server
from benchmarks.measure import (
    MB_PER_S,
    MICROSECONDS,
    Measure,
    Metric,
    Sample,
    Stage,
    Target,
)
from benchmarks.programs import run_python
from benchmarks.topics import Filling, Topic, equal_batches


class RawFetch(Measure):
    """The filled topic, again and again for some seconds."""

    kinds = (Kind.KAFKA, Kind.ODRADEK, Kind.FLOOR)
    busy = True
    warm_ups = 1

    def __init__(self, span_size_bytes: int, *, name: str, title: str) -> None:
        self.span_size_bytes = span_size_bytes
        self.name = name
        self.title = title
        self.metrics = (
            Metric("rate", "bulk fetch", MB_PER_S, "higher", Target("ratio", "≥", 1.2)),
            Metric("p50", "a request, p50", MICROSECONDS, "lower"),
        )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One process of the raw client."""
        if kind is not Kind.FLOOR:
            return self._run(stage, stage.broker(kind).address, stage.filled(kind))
        filling = equal_batches(Topic("floor", bytes(16)), stage.scale.fill_bytes, 16 << 10)
        spans = max(1, self.span_size_bytes // filling.batch_size_bytes)
        arguments = (
            *("--span-bytes", str(spans * filling.batch_size_bytes)),
            *("--file-bytes", str(filling.size_bytes)),
            *("--append-bytes", str(filling.batch_size_bytes)),
        )
        with floor_server(stage.directory(), *arguments) as address:
            return self._run(stage, address, filling)

    def _run(self, stage: Stage, address: Address, filling: Filling) -> Sample:
        return run_python(
            "fetch_spans",
            *("--address", str(address)),
            *("--topic-id", filling.topic.topic_id.hex()),
            *("--span-bytes", str(self.span_size_bytes)),
            *("--batch-bytes", str(filling.batch_size_bytes)),
            *("--batch-records", str(filling.batch_records)),
            *("--records", str(filling.record_count)),
            *("--seconds", str(stage.scale.seconds)),
        )
