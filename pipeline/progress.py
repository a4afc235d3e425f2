"""A streaming query's progress after each batch, as a log line and as a terminal line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from .offsets import Offsets, TopicPartition, offsets_of

PARTITIONS_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of a query, or a progress report without a batch."""

    query: str | None
    batch_id: int
    records: int
    records_per_s: float
    duration_ms: int
    ends: Offsets
    """Where the batch ends, for Kafka sources."""
    latest: Offsets
    """Where the logs ended when it was planned."""
    watermark: str | None

    def lags(self) -> dict[str, int]:
        """The lag of each partition, by name (`topic-0`); those without lag are left out."""
        lags = {}
        for topic, partitions in self.latest.items():
            for partition, latest in partitions.items():
                end = self.ends.get(topic, {}).get(partition)
                if end is not None and latest > end:
                    lags[str(TopicPartition(topic, partition))] = latest - end
        return lags


def parse_progress(text: str) -> Batch:
    """Parse Spark's JSON of a StreamingQueryProgress."""
    progress = json.loads(text)
    sources = [s for s in progress["sources"] if str(s.get("description")).startswith("Kafka")]
    ends = _offsets(sources, "endOffset")
    rows = progress["numInputRows"]
    records = min(rows, _span(_offsets(sources, "startOffset"), ends, rows))
    duration_ms = progress.get("durationMs", {}).get("triggerExecution", 0)
    return Batch(
        query=progress.get("name"),
        batch_id=progress["batchId"],
        records=records,
        records_per_s=records * 1000 / duration_ms if duration_ms else 0.0,
        duration_ms=duration_ms,
        ends=ends,
        latest=_offsets(sources, "latestOffset"),
        watermark=(progress.get("eventTime") or {}).get("watermark"),
    )


def log_line(batch: Batch) -> str:
    """The log line with the metrics of a batch."""
    return (
        f"batch query={batch.query} batch={batch.batch_id} records={batch.records}"
        f" records_per_s={batch.records_per_s:.0f} duration_ms={batch.duration_ms}"
        f" lag={sum(batch.lags().values())} watermark={batch.watermark or '-'}"
    )


def status_line(batch: Batch, records: int) -> str:
    """The terminal's line after a batch; `records` is the total since the start."""
    lags = sorted(batch.lags().items(), key=lambda lag: (-lag[1], lag[0]))
    parts = [
        f"{batch.query}: batch {batch.batch_id}",
        f"{records:,} records",
        f"{batch.records_per_s:,.0f}/s",
        f"lag {sum(lag for _, lag in lags):,}",
    ]
    if lags:
        worst = [f"{name} {lag:,}" for name, lag in lags[:PARTITIONS_SHOWN]]
        more = [f"and {len(lags) - len(worst)} more"] if len(lags) > len(worst) else []
        parts[-1] += f" ({', '.join(worst + more)})"
    if batch.watermark:
        parts.append(f"watermark {batch.watermark}")
    return ", ".join(parts)


def _span(starts: Offsets, ends: Offsets, unknown: int) -> int:
    """The number of offsets in a batch, or `unknown`.

    Spark counts a row every time it is read, and foreachBatch may read it more than once.  The
    number of offsets bounds the records.  The first batch does not say where it begins.
    """
    if not starts or not ends:
        return unknown
    return sum(
        end - starts.get(topic, {}).get(partition, 0)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    )


def _offsets(sources: list[Mapping[str, Any]], name: str) -> Offsets:
    merged: Offsets = {}
    for source in sources:
        # Python's JSON of a query has offsets as text, the JVM's as objects.
        found = source.get(name)
        document = json.loads(found) if isinstance(found, str) else found
        for topic, partitions in offsets_of(document).items():
            merged.setdefault(topic, {}).update(partitions)
    return merged
