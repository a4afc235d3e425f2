"""The Spark side of an audit: checksums of records, digests of ranges, and rows that differ.

All expressions run in the JVM.  One scan of each side yields its digests, and only one row per
range of offsets is shuffled, unless the order of a copy has to be checked.  Only ranges whose
digests differ are read again and joined by offset.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .audit_compare import NEVER, Checksum, Digest, Example, Finding, Place, Side, What
from .kafka import Kafka
from .kafka_source import AT_THE_END, source_options
from .marks import with_source
from .offsets import TopicPartition
from .small_tables import small_table
from .spark_types import DataFrame, Row, SparkSession

# xxhash64 skips nulls, so each nullable field is preceded by whether it is null. No headers and
# null headers are the same: Kafka does not distinguish them.
CONTENT: Final = (
    "xxhash64(isnull(key), key, isnull(value), value, unix_micros(timestamp),"
    " transform(headers, header -> struct(header.key, isnull(header.value), header.value)))"
)
EXAMPLES_MAX: Final = 20
_CHECKSUMS: Final = ("content", "placed", "types")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets to read of each partition; the ends are exclusive."""

    starts: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]

    def within(self, places: Collection[Place], size: int) -> "Bounds":
        """These bounds, narrowed to what some ranges of `size` offsets need."""
        wanted: dict[TopicPartition, list[int]] = defaultdict(list)
        for topic, partition, start in places:
            wanted[TopicPartition(topic, partition)].append(start)
        starts, ends = dict(self.starts), dict(self.ends)
        for key, end in self.ends.items():
            if key in wanted:
                starts[key] = min(end, max(starts[key], min(wanted[key])))
                ends[key] = max(starts[key], min(end, max(wanted[key]) + size))
            else:
                starts[key] = end
        return Bounds(starts, ends)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A side, and a function that reads the rows of some of its ranges (or more)."""

    side: Side
    rows: Callable[[Collection[Place]], DataFrame]


def broker_records(spark: SparkSession, kafka: Kafka, bounds: Bounds) -> DataFrame:
    """The records within bounds, in the columns of Spark's Kafka source."""
    return (
        spark.read.format("kafka")
        .options(**{**AT_THE_END, **source_options(kafka)})
        .option("subscribe", ",".join(sorted({key.topic for key in bounds.starts})))
        .option("startingOffsets", _as_json(bounds.starts))
        .option("endingOffsets", _as_json(bounds.ends))
        .option("includeHeaders", "true")
        # Retention during the read is noticed because log start offsets are read again.
        .option("failOnDataLoss", "false")
        .load()
    )


def source_rows(records: DataFrame) -> DataFrame:
    """What is compared of each record, at its own offset: its checksum and timestamp type."""
    return records.selectExpr(
        "topic",
        "partition",
        "offset",
        f"{CONTENT} AS content",
        "timestampType AS type",
        "false AS behind",
        "CAST(NULL AS INT) AS target",
    )


def copied_rows(records: DataFrame, name: str | None = None) -> DataFrame:
    """The same for copies, at the source offsets in their marks; null for records without one.

    With a name, only records of the job of that name ("": of jobs without one), and those without
    a mark.  A record is *behind* if a later one of its source partition precedes it.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    marked = with_source(records)
    if name is not None:
        is_wanted = f.coalesce("source_name", f.lit("")) == name
        marked = marked.where(f.col("source_topic").isNull() | is_wanted)
    copied = marked.selectExpr(
        "source_topic AS topic",
        "source_partition AS partition",
        "source_offset AS offset",
        f"{CONTENT} AS content",
        "timestampType AS type",
        "partition AS target",
        "offset AS target_offset",
    )
    order = Window.partitionBy("target", "topic", "partition").orderBy("target_offset")
    before = order.rowsBetween(Window.unboundedPreceding, -1)
    behind = f.max("offset").over(before) > f.col("offset")
    return copied.withColumn("behind", f.coalesce(behind, f.lit(False)))


def digests(rows: DataFrame, size: int) -> tuple[dict[Place, Digest], int]:
    """A digest of each range of `size` offsets, and the number of records without a source."""
    from pyspark.sql import functions as f

    checked = rows.withColumns(
        {
            "start": _range_start(size),
            "placed": f.expr("xxhash64(offset, content)"),
            "types": f.expr("xxhash64(offset, type)"),
        }
    )
    sums = [
        sum_
        for name in _CHECKSUMS
        for sum_ in (
            f.expr(f"bit_xor({name})").alias(f"{name}_xor"),
            f.expr(f"sum(shiftrightunsigned({name}, 32))").alias(f"{name}_total"),
        )
    ]
    ranges = checked.groupBy("topic", "partition", "start").agg(
        f.count(f.lit(1)).alias("records"),
        f.min("offset").alias("first"),
        f.max("offset").alias("last"),
        f.expr("count_if(behind)").alias("disordered"),
        f.collect_set("target").alias("targets"),
        *sums,
    )
    collected = ranges.collect()
    return {
        Place(row.topic, row.partition, row.start): _digest(row)
        for row in collected
        if row.topic is not None
    }, sum(row.records for row in collected if row.topic is None)


def look_closer(
    left: Bounded, right: Bounded, places: Collection[Place], size: int, *, types: bool
) -> tuple[list[Finding], list[Example]]:
    """The differences in some ranges, and the first offsets that have any."""
    if not places:
        return [], []
    differences = _differences(left, right, places, size, types=types).persist()
    try:
        findings = [_finding(row) for row in _totals(differences).collect()]
        wanted = differences.where("what NOT IN ('removed', 'late')")
        first = wanted.orderBy("topic", "partition", "offset", "what").limit(EXAMPLES_MAX)
        return findings, [_example(row) for row in first.collect()]
    finally:
        differences.unpersist()


def _differences(
    left: Bounded, right: Bounded, places: Collection[Place], size: int, *, types: bool
) -> DataFrame:
    """A row for each finding at each offset."""
    from pyspark.sql import functions as f

    left_rows, right_rows = left.rows(places), right.rows(places)
    spark = left_rows.sparkSession
    suspects = small_table(
        spark,
        (place._asdict() for place in places),
        "topic STRING, partition INT, start BIGINT",
    )
    bounds = small_table(
        spark,
        _bounds_of_both(left.side, right.side, places),
        "topic STRING, partition INT,"
        " left_start BIGINT, left_end BIGINT, right_start BIGINT, right_end BIGINT",
    )
    both = (
        _by_offset(left_rows, "left", suspects, size, types=types)
        .join(
            _by_offset(right_rows, "right", suspects, size, types=types),
            ["topic", "partition", "start", "offset"],
            "full_outer",
        )
        .join(f.broadcast(bounds), ["topic", "partition"])
    )
    found = both.withColumn("found", f.explode(f.expr(_found(left.side.name, right.side.name))))
    return found.selectExpr("topic", "partition", "start", "offset", "found.*")


def _by_offset(
    rows: DataFrame, side: str, suspects: DataFrame, size: int, *, types: bool
) -> DataFrame:
    """For each offset, the number of records, and their least and greatest checksum."""
    from pyspark.sql import functions as f

    record = "xxhash64(content, type)" if types else "content"
    places = ["topic", "partition", "start"]
    return (
        rows.withColumns({"start": _range_start(size), "record": f.expr(record)})
        .join(f.broadcast(suspects), places, "left_semi")
        .groupBy(*places, "offset")
        .agg(
            f.count(f.lit(1)).alias(f"{side}_count"),
            f.min("record").alias(f"{side}_least"),
            f.max("record").alias(f"{side}_greatest"),
        )
    )


def _found(left: str, right: str) -> str:
    """SQL: the findings at an offset, as structs of what, side and how many."""
    cases = []
    for name, side in ((left, "left"), (right, "right")):
        absent = (
            f"CASE WHEN offset < {side}_start THEN '{What.REMOVED}'"
            f" WHEN offset >= {side}_end THEN '{What.LATE}' ELSE '{What.MISSING}' END"
        )
        cases += [
            f"IF({side}_count IS NULL, {_struct(absent, name, '1L')}, NULL)",
            f"IF({side}_count > 1,"
            f" {_struct(repr(str(What.DOUBLED)), name, f'{side}_count - 1')}, NULL)",
        ]
    differ = "left_least != right_least OR left_greatest != right_greatest"
    cases.append(f"IF({differ}, {_struct(repr(str(What.CHANGED)), '', '1L')}, NULL)")
    return f"filter(array({', '.join(cases)}), one -> one IS NOT NULL)"


def _struct(what: str, side: str, count: str) -> str:
    return f"named_struct('what', {what}, 'side', '{side}', 'records', {count})"


def _totals(differences: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return differences.groupBy("topic", "partition", "start", "what", "side").agg(
        f.sum("records").alias("records"),
        f.min("offset").alias("first"),
        f.max("offset").alias("last"),
    )


def _bounds_of_both(
    left: Side, right: Side, places: Collection[Place]
) -> Iterator[dict[str, object]]:
    for key in {place.topic_partition for place in places}:
        yield {
            **key._asdict(),
            "left_start": left.starts.get(key, 0),
            "left_end": left.ends.get(key, NEVER),
            "right_start": right.starts.get(key, 0),
            "right_end": right.ends.get(key, NEVER),
        }


def _range_start(size: int) -> Any:
    from pyspark.sql import functions as f

    return f.expr(f"offset - pmod(offset, {size})")


def _digest(row: Row) -> Digest:
    sums = {
        name: Checksum(row[f"{name}_xor"] or 0, row[f"{name}_total"] or 0) for name in _CHECKSUMS
    }
    return Digest(
        count=row.records,
        offset_first=row.first,
        offset_last=row.last,
        disordered=row.disordered,
        targets=frozenset(row.targets),
        **sums,
    )


def _finding(row: Row) -> Finding:
    place = Place(row.topic, row.partition, row.start)
    return Finding(place, What(row.what), row.side, row.records, row.first, row.last)


def _example(row: Row) -> Example:
    place = Place(row.topic, row.partition, row.start)
    return Example(place, row.offset, What(row.what), row.side)


def _as_json(offsets: Mapping[TopicPartition, int]) -> str:
    """Offsets in the JSON of Spark's Kafka source."""
    by_topic: dict[str, dict[str, int]] = defaultdict(dict)
    for (topic, partition), offset in offsets.items():
        by_topic[topic][str(partition)] = offset
    return json.dumps(by_topic)
