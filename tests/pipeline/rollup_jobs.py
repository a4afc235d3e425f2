"""What the tests of rollups ask a warm Spark."""

import json
from datetime import datetime
from typing import Any

from odradek.pipeline.rollup_parse import dead_letters, parsed, with_reasons
from odradek.pipeline.rollup_reading import read_spec
from odradek.pipeline.rollup_spec import Window
from odradek.pipeline.rollup_windows import window_ends

COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp,"
    " headers array<struct<key:string,value:binary>>"
)


def records(spark: Any, values: list[str | None], time: str) -> Any:
    """The values, in hex, as the Kafka source gives them."""
    moment = datetime.fromisoformat(time)
    rows = [
        (b"k", None if value is None else bytes.fromhex(value), "t", 0, offset, moment, None)
        for offset, value in enumerate(values)
    ]
    return spark.createDataFrame(rows, COLUMNS)


def classify(spark: Any, spec: str, values: list[str | None]) -> list[str | None]:
    """For each value the reason why it is bad, or None."""
    rollup = read_spec(spec, "spec")
    classified = parsed(records(spark, values, "2026-01-01T12:00:00+00:00"), rollup).persist()
    bad = dict(
        with_reasons(classified, rollup).select("odradek_offset", "odradek_reason").collect()
    )
    letters = dead_letters(classified, rollup).collect()
    assert len(letters) == len(bad)
    return [bad.get(offset) for offset in range(len(values))]


def ends(spark: Any, times_ms: list[int], size_ms: int, slide_ms: int) -> list[list[list[int]]]:
    """For each time the ends of its first and last window: by Spark's window, and by ours."""
    first, last = window_ends("unix_micros(at)", Window(size_ms, slide_ms))
    times = spark.createDataFrame([(time,) for time in times_ms], "ms bigint")
    times = times.selectExpr("ms", "timestamp_millis(ms) AS at").persist()
    ours = {row[0]: list(row[1:]) for row in times.selectExpr("ms", first, last).collect()}
    window = f"window(at, '{size_ms} milliseconds', '{slide_ms} milliseconds')"
    theirs = times.selectExpr("ms", f"{window} AS w").selectExpr("ms", "unix_micros(w.end) AS e")
    found: dict[int, list[int]] = {}
    for row in theirs.collect():
        found.setdefault(row.ms, []).append(row.e)
    return [[[min(found[ms]), max(found[ms])], ours[ms]] for ms in times_ms]


def rows(spark: Any, folder: str) -> list[dict[str, Any]]:
    """What any reader finds in a folder of Parquet, as the topic has it: times as text."""
    found = spark.read.parquet(folder).drop("date").selectExpr("to_json(struct(*)) AS row")
    return [json.loads(row.row) for row in found.collect()]
