"""Raw Fetch, span after span, one request in flight: what the broker itself can send."""

from benchmarks.brokers import Kind
from benchmarks.connection import Address
from benchmarks.floor import floor_server
from benchmarks.measure import (
    CPU_WITH_TLS,
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

    busy = True
    warm_ups = 1

    def __init__(self, span_size_bytes: int, *, name: str, title: str, tls: bool = False) -> None:
        self.tls = tls
        self.kinds = (Kind.KAFKA, Kind.ODRADEK, *([] if tls else [Kind.FLOOR]))
        self.span_size_bytes = span_size_bytes
        self.name = name
        self.title = title
        target = None if tls else Target("ratio", "≥", 1.2)
        self.metrics = (
            Metric("rate", "bulk fetch", MB_PER_S, "higher", target),
            Metric("p50", "a request, p50", MICROSECONDS, "lower"),
            *([CPU_WITH_TLS] if tls else []),
        )

    def sample(self, stage: Stage, kind: Kind) -> Sample:
        """One process of the raw client."""
        if self.tls:
            return self._with_tls(stage, kind)
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

    def _with_tls(self, stage: Stage, kind: Kind) -> Sample:
        broker, filling = stage.broker(kind), stage.filled(kind)
        assert broker.tls_address is not None
        before_s = broker.cpu_s()
        authority = str(stage.certificates.authority)
        found = self._run(stage, broker.tls_address, filling, "--authority", authority)
        cpu_s = broker.cpu_s() - before_s
        received_bytes = found["rate"] * found["seconds"]
        return {"rate": found["rate"], "p50": found["p50"], "cpu": cpu_s / (received_bytes / 1e9)}

    def _run(self, stage: Stage, address: Address, filling: Filling, *more: str) -> Sample:
        return run_python(
            "fetch_spans",
            *("--address", str(address)),
            *("--topic-id", filling.topic.topic_id.hex()),
            *("--span-bytes", str(self.span_size_bytes)),
            *("--batch-bytes", str(filling.batch_size_bytes)),
            *("--batch-records", str(filling.batch_records)),
            *("--records", str(filling.record_count)),
            *("--seconds", str(stage.scale.seconds)),
            *more,
        )
