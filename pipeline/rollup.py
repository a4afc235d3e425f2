"""The rollup job from start to stop: a windowed aggregation of topics, specified in YAML."""

from collections.abc import Mapping, Sequence
from typing import Final

from .checkpoints import check_start
from .errors import PipelineError
from .files import Files
from .kafka import Kafka
from .kafka_source import reading_options, source_options, stream_options
from .rollup_batch import BatchWriter
from .rollup_books import TIME_ZONE, Books, Noted, Origin
from .rollup_parquet import ParquetFolder
from .rollup_parse import parsed
from .rollup_spec import Rollup, types_of
from .rollup_windows import aggregated
from .running import run_stream
from .session import SparkOptions, start
from .spark_types import DataStreamWriter, SparkSession

CHAINED: Final = "spark.sql.streaming.statefulOperator.allowMultiple"
DEFAULTS: Final = {
    TIME_ZONE: "UTC",  # times without a zone, and the dates of folders
    "spark.sql.ansi.enabled": "false",  # one division by zero must not stop the job for good
}


def run_rollup(
    spec: Rollup,
    kafka: Kafka,
    options: SparkOptions,
    *,
    once: bool,
    fail_on_data_loss: bool = True,
) -> Noted | None:
    """Run until stopped, or with `once` until all available records are processed.

    Returns the newest batch of the checkpoint, with totals of all runs; None: there was no batch.
    Raises: PipelineError.
    """
    topics = check_topics(spec, kafka)
    spark = start(spec.name, options.with_defaults(DEFAULTS))
    check_measures(spark, spec)
    writer = BatchWriter(
        spec,
        open_books(spark, spec, origin_of(spec, kafka, topics)),
        open_parquet(spark, spec),
        reading=reading_options(
            kafka,
            isolation_level=spec.source.isolation_level,
            fail_on_data_loss=fail_on_data_loss,
        ),
        writing=source_options(kafka),
        chained=spark.conf.get(CHAINED, "true").lower() == "true",
    )
    writer.open()
    if writer.books.files.exists("offsets"):  # else it only holds our own notes
        check_start(
            writer.books.files,
            kafka,
            topics,
            pattern=spec.source.topics_pattern,
            fail_on_data_loss=fail_on_data_loss,
        )
        if not fail_on_data_loss:
            writer.replan(topics)
        writer.books.check_origin(fail_on_data_loss=fail_on_data_loss)
    create_outputs(spec, kafka, kafka.partitions(topics[0]))
    run_stream(
        lambda: stream(spark, spec, writer),
        once=once,
        trigger=spec.trigger,
        name=spec.name,
        kafka=kafka,
    )
    return writer.noted


def stream(spark: SparkSession, spec: Rollup, writer: BatchWriter) -> DataStreamWriter:
    """The streaming query, ready to be started."""
    source = spec.source
    begin = stream_options(
        source.topics,
        pattern=source.topics_pattern,
        starting_offsets=source.starting_offsets,
        max_offsets_per_trigger=source.max_offsets_per_trigger,
    )
    records = spark.readStream.format("kafka").options(**writer.reading, **begin).load()
    return (
        aggregated(parsed(records, spec), spec)
        .writeStream.outputMode(spec.output.mode)
        .option("checkpointLocation", writer.books.files.absolute())
        .foreachBatch(writer)
    )


def check_topics(spec: Rollup, kafka: Kafka) -> list[str]:
    """The topics to read.  Raises: PipelineError, also if one of them is an output."""
    topics = kafka.topics(spec.source.topics, pattern=spec.source.topics_pattern)
    written = {spec.output.topic, spec.dead_letters} & set(topics)
    if written:
        raise PipelineError(
            f"{spec.name} would read what it writes: {', '.join(sorted(map(str, written)))}"
        )
    return topics


def origin_of(spec: Rollup, kafka: Kafka, topics: Sequence[str]) -> Origin:
    """What distinguishes the topics from others of the same names.  Raises: PipelineError."""
    start, cluster = spec.source.starting_offsets, kafka.cluster_id()
    return {topic: [start, cluster, kafka.topic_id(topic)] for topic in topics}


def check_measures(spark: SparkSession, spec: Rollup) -> None:
    """Have Spark analyse each measure alone, so that an error names its line in the spec."""
    from pyspark.errors import AnalysisException

    fields = types_of(spec.schema).items()
    nulls = ", ".join(f"CAST(NULL AS {kind}) AS `{name}`" for name, kind in fields)
    for measure in spec.measures:
        try:
            spark.sql(f"SELECT {nulls}").selectExpr(measure.expression)
        except AnalysisException as error:
            first_line = str(error).strip().split("\n")[0]
            raise measure.entry.error(f"Spark can't use this: {first_line}") from error


def open_books(spark: SparkSession, spec: Rollup, origin: Origin) -> Books:
    """The notes beside the checkpoint, which must be writable.  Raises: PipelineError."""
    books = Books(Files(spark, spec.checkpoint), spark.conf.get(TIME_ZONE), origin)
    books.files.check_writable()
    return books


def open_parquet(spark: SparkSession, spec: Rollup) -> ParquetFolder | None:
    """The output folder, if the spec names one.  Raises: PipelineError."""
    if spec.output.parquet is None:
        return None
    parquet = ParquetFolder(Files(spark, spec.output.parquet))
    parquet.files.check_writable()
    return parquet


def create_outputs(spec: Rollup, kafka: Kafka, partitions: int) -> None:
    """Create missing output topics; the one for results is compacted."""
    wanted: dict[str | None, Mapping[str, str]] = {
        spec.output.topic: {"cleanup.policy": "compact"},
        spec.dead_letters: {},
    }
    for topic, config in wanted.items():
        if topic is not None and not kafka.exists(topic):
            kafka.create_topic(topic, partitions, config)
