"""What is made of Spark's progress: lines, lags, commits."""

import json
from collections.abc import Mapping
from typing import Any

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.lag import LagCommits
from odradek.pipeline.progress import Batch, log_line, parse_progress, status_line


def progress(ends: object, latest: object, **more: object) -> str:
    """A StreamingQueryProgress as Spark's JSON has it."""
    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "endOffset": ends,
        "latestOffset": latest,
    }
    document: dict[str, Any] = {
        "name": "q",
        "batchId": 3,
        "numInputRows": 1200,
        "processedRowsPerSecond": 400.5,
        "durationMs": {"triggerExecution": 3000},
        "sources": [source, {"description": "RateStreamV2[]", "endOffset": 4}],
        **more,
    }
    return json.dumps(document)


def batch(**more: object) -> Batch:
    return parse_progress(progress({"t": {"0": 5, "1": 9}}, {"t": {"0": 105, "1": 9}}, **more))


def test_offsets_are_read_as_objects_and_as_text() -> None:
    as_text = parse_progress(progress('{"t":{"0":5}}', '{"t":{"0":6}}'))
    assert as_text.ends == {"t": {0: 5}}
    assert as_text.lags() == {"t-0": 1}
    assert batch().ends == {"t": {0: 5, 1: 9}}
    assert parse_progress(progress(None, None)).ends == {}


def test_idle_queries_have_no_rates() -> None:
    idle = batch(numInputRows=0, processedRowsPerSecond=None, durationMs={})
    assert (idle.records, idle.records_per_s, idle.duration_ms) == (0, 0.0, 0)


def test_rows_that_were_read_twice_count_once() -> None:
    source = {
        "description": "KafkaV2[Subscribe[t]]",
        "startOffset": {"t": {"0": 100, "1": 0}},
        "endOffset": {"t": {"0": 600, "1": 100}},
    }
    twice = batch(sources=[source])
    assert (twice.records, twice.records_per_s) == (600, 200)
    with_gaps = batch(sources=[source], numInputRows=450)
    assert with_gaps.records == 450


def test_a_batch_is_one_line_of_the_log() -> None:
    watermark = {"eventTime": {"watermark": "2026-01-01T00:00:00.000Z"}}
    assert log_line(batch(**watermark)) == (
        "batch query=q batch=3 records=1200 records_per_s=400 duration_ms=3000 lag=100"
        " watermark=2026-01-01T00:00:00.000Z"
    )


def test_the_terminal_shows_rate_lag_and_watermark() -> None:
    line = status_line(batch(eventTime={"watermark": "W"}), 5000)
    assert line == "q: batch 3, 5,000 records, 400/s, lag 100 (t-0 100), watermark W"


def test_only_the_worst_partitions_are_shown() -> None:
    ends = {"t": dict.fromkeys(range(9), 0)}
    many = parse_progress(progress(ends, {"t": {p: p for p in range(9)}}))
    assert "lag 36 (t-8 8, t-7 7, t-6 6, t-5 5, and 4 more)" in status_line(many, 0)


class Coordinator(Kafka):
    """Notes what is committed."""

    def __init__(self) -> None:
        super().__init__("nowhere:1")
        self.commits: list[tuple[str, Mapping[str, Mapping[int, int]]]] = []
        self.away = False

    def commit(self, group: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        if self.away:
            raise PipelineError("away")
        self.commits.append((group, offsets))


def test_the_ends_of_each_query_are_committed_to_its_group() -> None:
    kafka = Coordinator()
    commits = LagCommits(kafka)
    commits.commit(batch())
    commits.commit(batch(batchId=4))  # nothing new
    commits.commit(batch(name=None))
    commits.commit(batch(name="other"))
    LagCommits(kafka, "mine").commit(batch())
    ends = {"t": {0: 5, 1: 9}}
    assert kafka.commits == [("spark-q", ends), ("spark-other", ends), ("mine", ends)]


def test_what_was_not_committed_is_tried_again() -> None:
    kafka = Coordinator()
    commits = LagCommits(kafka)
    kafka.away = True
    commits.commit(batch())
    kafka.away = False
    commits.commit(batch())
    assert [group for group, _ in kafka.commits] == ["spark-q"]
