"""Runs one micro-batch of a rollup: counts records, sets bad ones aside, writes windows.

Counts and Parquet rows are exactly once: a batch that is run again after a kill has the same
offsets and watermark, which Spark writes before it runs, and gives the same result. Topics are at
least once: such a batch writes its records to them again, with the same keys and values.
"""

import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final

from .checkpoints import read_checkpoint
from .errors import PipelineError
from .offsets import EARLIEST, Offsets
from .rollup_books import Books, Noted, Planned
from .rollup_parquet import ParquetFolder
from .rollup_parse import dead_letters, parsed, with_reasons
from .rollup_spec import Rollup
from .rollup_windows import Counts, counted
from .spark_types import DataFrame, SparkSession

MISMATCH_RECORDS_MIN: Final = 10
"""If at least this many records come, none fits and none ever did, the spec is wrong."""

logger = logging.getLogger(__name__)


@dataclass
class BatchWriter:
    """The foreachBatch function."""

    spec: Rollup
    books: Books
    parquet: ParquetFolder | None
    reading: Mapping[str, str]
    """Options of Spark's Kafka source, without topics and offsets."""
    writing: Mapping[str, str]
    """Options of Spark's Kafka sink, without the topic."""
    chained: bool
    """spark.sql.streaming.statefulOperator.allowMultiple"""
    noted: Noted | None = field(default=None, init=False)
    """The newest batch; until this run has done one, that of the previous run."""

    def open(self) -> None:
        """Claim checkpoint and folder for this spec, or check that they belong to it.

        Raises: PipelineError.
        """
        owner = self.books.open(self.spec)
        if self.parquet is not None:
            self.parquet.open(owner)
        self.noted = self.books.newest()

    def replan(self, topics: Collection[str]) -> None:
        """Have Spark plan a killed batch anew if it has records of deleted topics.

        `topics` exist.  The others cannot be read again: Spark asks for their offsets whatever
        failOnDataLoss is (KafkaDataConsumer.scala, fetch).  Raises: PipelineError if the batch has
        already written Parquet files, because those stay.
        """
        files = self.books.files
        checkpoint = read_checkpoint(files)
        if checkpoint is None or checkpoint.batch_id == checkpoint.committed_batch_id:
            return
        batch_id = checkpoint.batch_id
        planned = self.books.planned(batch_id, chained=self.chained)
        gone = ", ".join(sorted(advanced(planned).keys() - set(topics)))
        if not gone:
            return
        if self.parquet is not None and self.parquet.holds(batch_id):
            raise PipelineError(
                f"batch {batch_id} of the checkpoint {files.uri} was killed when it had written"
                f" Parquet files, and cannot be done again without the records of {gone}, which was"
                " deleted: begin with another name, checkpoint and output"
            )
        logger.warning("batch planned again batch=%d without=%s", batch_id, gone)
        # A new attempt overwrites the state changes that this one saved, but not a snapshot.
        for file in files.list("state", recursive=True):
            if PurePosixPath(file.path).stem == str(batch_id + 1):
                files.delete(file.path)
        self.books.unnote(batch_id)
        files.delete(f"offsets/{batch_id}")
        self.noted = self.books.newest()

    def __call__(self, windows: DataFrame, batch_id: int) -> None:
        """Do one batch.  Raises: PipelineError."""
        planned = self.books.planned(batch_id, chained=self.chained)
        counts = self._count(windows.sparkSession, planned)
        rows = self._write(windows, batch_id)
        self.noted = self.books.note(batch_id, counts, rows)
        logger.info(
            "rollup name=%s batch=%d records=%d bad=%d late=%d partly_late=%d rows=%d"
            " watermark_ms=%d",
            self.spec.name,
            batch_id,
            counts.records,
            counts.bad,
            counts.late,
            counts.partly_late,
            rows,
            planned.watermark_ms,
        )

    def _count(self, spark: SparkSession, planned: Planned) -> Counts:
        """Count the batch's records and write the bad ones to the dead letters."""
        ranges = advanced(planned)
        if not ranges:
            return Counts()
        classified = parsed(self._read(spark, planned, ranges), self.spec)
        counts = counted(classified, self.spec.window, planned.late_watermark_ms)
        if counts.bad:
            self._refuse_mismatch(classified, counts)
            if self.spec.dead_letters is not None:
                self._to_topic(dead_letters(classified, self.spec), self.spec.dead_letters)
        return counts

    def _read(
        self, spark: SparkSession, planned: Planned, ranges: dict[str, list[int]]
    ) -> DataFrame:
        """Read the batch's records again: a stream cannot look twice at what it aggregates."""
        options = {
            **self.reading,
            "assign": json.dumps(ranges),
            "startingOffsets": json.dumps(picked(planned.start, ranges)),
            "endingOffsets": json.dumps(picked(planned.end, ranges)),
        }
        return spark.read.format("kafka").options(**options).load()

    def _refuse_mismatch(self, classified: DataFrame, counts: Counts) -> None:
        earlier = self.noted.total if self.noted else Counts()
        if counts.good or earlier.good:
            return
        if counts.records < MISMATCH_RECORDS_MIN:
            return
        shown = ("record_topic", "record_partition", "odradek_offset", "odradek_reason")
        first = with_reasons(classified, self.spec).select(*shown).first()
        self.books.refuse()
        raise PipelineError(
            f"none of the {counts.records} records of {first.record_topic} that were read fits the"
            f" schema of {self.spec.name}, such as offset {first.odradek_offset} of partition"
            f" {first.record_partition}: {first.odradek_reason}; correct the spec's `schema` and"
            " start again, the rollup begins anew; if the schema is right, start again when a good"
            " record is among the first batch's"
        )

    def _write(self, windows: DataFrame, batch_id: int) -> int:
        """Write the batch's windows to the outputs; returns how many there are."""
        windows = windows.persist()  # computed once: computing it updates Spark's state
        try:
            rows: int = windows.count()
            if rows and self.parquet is not None:
                self.parquet.write(windows, batch_id)
            if rows and self.spec.output.topic is not None:
                self._to_topic(as_records(windows, self.spec), self.spec.output.topic)
            return rows
        finally:
            windows.unpersist()

    def _to_topic(self, records: DataFrame, topic: str) -> None:
        options = {**self.writing, "topic": topic, "includeHeaders": "true"}
        records.write.format("kafka").options(**options).save()


def as_records(windows: DataFrame, spec: Rollup) -> DataFrame:
    """Windows as JSON, keyed by window start and key: the last record of each is the result."""
    columns = ["window_start", *(f"`{name}`" for name in spec.key)]
    keep_nulls = "map('ignoreNullFields', 'false')"
    return windows.selectExpr(
        f"to_json(struct({', '.join(columns)}), {keep_nulls}) AS key",
        f"to_json(struct(*), {keep_nulls}) AS value",
    )


def advanced(planned: Planned) -> dict[str, list[int]]:
    """The partitions that have offsets in a batch, by topic."""
    ranges = {
        topic: [
            partition
            for partition, end in ends.items()
            if end > planned.start.get(topic, {}).get(partition, 0)
        ]
        for topic, ends in planned.end.items()
    }
    return {topic: partitions for topic, partitions in ranges.items() if partitions}


def picked(offsets: Offsets, ranges: Mapping[str, list[int]]) -> Offsets:
    """The offsets of some partitions; a partition without one begins at its earliest."""
    return {
        topic: {
            partition: offsets.get(topic, {}).get(partition, EARLIEST) for partition in partitions
        }
        for topic, partitions in ranges.items()
    }
