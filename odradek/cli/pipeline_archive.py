"""`odradek pipeline archive`: archives topics in Parquet files."""

from collections.abc import Sequence
from typing import Final

import click

from odradek.pipeline.archive import ArchiveJob
from odradek.pipeline.archive import archive as run_archive
from odradek.pipeline.archive_files import TARGET_BYTES
from odradek.pipeline.kafka import ISOLATION_LEVELS, Kafka
from odradek.pipeline.session import SparkOptions

from .commands import command
from .pipeline_options import (
    fail_on_data_loss_option,
    kafka_options,
    spark_options,
    streaming_options,
    topics_options,
)
from .tables import count_of

MAX_OFFSETS: Final = 5_000_000


@command()
@topics_options
@click.option("--to", "target", metavar="DIR", required=True, help="A folder, or a URI of Hadoop.")
@streaming_options
@click.option("--checkpoint", metavar="DIR", help="Spark's checkpoint  [default: in the archive]")
@click.option(
    "--starting-offsets",
    metavar="earliest|latest|JSON",
    default="earliest",
    show_default=True,
    help="Where to begin in partitions that are in neither the archive nor the checkpoint.",
)
@click.option(
    "--max-offsets-per-trigger",
    type=click.IntRange(1),
    metavar="N",
    default=MAX_OFFSETS,
    show_default=True,
    help="The size of a batch, and so the work that a kill can cost.",
)
@click.option(
    "--partition-by",
    metavar="COLUMN,…",
    help="Folders: topic, then any of date, hour, partition  [default: topic,date]",
)
@click.option(
    "--isolation-level",
    type=click.Choice(ISOLATION_LEVELS),
    help="Whether records of open and aborted transactions count  [default: read_uncommitted]",
)
@fail_on_data_loss_option
@click.option(
    "--compact", is_flag=True, help="Before the first batch, merge small files into large ones."
)
@spark_options
@kafka_options
def archive(
    kafka: Kafka,
    spark: SparkOptions,
    topics: Sequence[str],
    topics_pattern: str | None,
    target: str,
    once: bool,
    trigger: str | None,
    checkpoint: str | None,
    query_name: str | None,
    starting_offsets: str,
    max_offsets_per_trigger: int,
    partition_by: str | None,
    isolation_level: str | None,
    fail_on_data_loss: bool,
    compact: bool,
) -> None:
    """Write topics to Parquet files, each offset exactly once.

    A batch becomes part of the archive atomically, whatever is killed meanwhile. Start the job
    again, and it continues. Any Parquet reader can read the folder.
    """
    job = ArchiveJob(
        to=target,
        topics=topics,
        pattern=topics_pattern,
        checkpoint=checkpoint,
        once=once,
        trigger=trigger,
        name=query_name,
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        partition_by=None if partition_by is None else tuple(partition_by.split(",")),
        isolation_level=isolation_level,
        fail_on_data_loss=fail_on_data_loss,
        compact_to_bytes=TARGET_BYTES if compact else None,
    )
    done = run_archive(job, spark, kafka)
    records, commits = count_of(done.records, "record"), count_of(done.commits, "commit")
    click.echo(f"{records} archived in {commits}: {target}")
