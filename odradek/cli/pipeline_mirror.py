"""`odradek pipeline mirror`: copies topics to another cluster."""

from collections.abc import Sequence

import click

from odradek.pipeline.kafka import ISOLATION_LEVELS
from odradek.pipeline.mirror import STARTS, Mirror, check_mirror
from odradek.pipeline.mirror import mirror as run_mirror
from odradek.pipeline.session import SparkOptions, start
from odradek.pipeline.writing import careful

from .commands import command
from .pipeline_options import (
    command_config_option,
    copy_options,
    fail_on_data_loss_option,
    kafka_of,
    spark_options,
    streaming_options,
    topics_options,
)
from .tables import count_of


@command(
    epilog="The same command goes on where an earlier run ended or was killed; its progress is kept"
    " at the target. Each record gets one more header, odradek.source, that names its source."
)
@click.option(
    "--from", "source", metavar="HOST:PORT,…", required=True, help="The cluster of the topics."
)
@click.option(
    "--to", "target", metavar="HOST:PORT,…", required=True, help="The cluster of the copies."
)
@topics_options
@click.option("--prefix", default="", metavar="P", help="The prefix for the names of the copies.")
@streaming_options
@click.option(
    "--starting-offsets",
    type=click.Choice(STARTS),
    default="earliest",
    show_default=True,
    help="Where to begin in partitions that were not copied before.",
)
@click.option(
    "--max-offsets-per-trigger", type=click.IntRange(1), metavar="N", help="The size of a batch."
)
@click.option(
    "--isolation-level",
    type=click.Choice(ISOLATION_LEVELS),
    default=ISOLATION_LEVELS[0],
    show_default=True,
    help="Whether records of open and aborted transactions count.",
)
@fail_on_data_loss_option
@copy_options
@command_config_option(" for --from", "--from-command-config")
@command_config_option(" for --to", "--to-command-config")
@spark_options
def mirror(
    *,
    source: str,
    target: str,
    topics: Sequence[str],
    topics_pattern: str | None,
    prefix: str,
    once: bool,
    trigger: str | None,
    query_name: str | None,
    starting_offsets: str,
    max_offsets_per_trigger: int | None,
    isolation_level: str,
    fail_on_data_loss: bool,
    name: str,
    restart: bool,
    compression: str | None,
    from_command_config: str | None,
    to_command_config: str | None,
    spark: SparkOptions,
) -> None:
    """Copy topics, each record exactly once and into the partition of the same number."""
    origin = kafka_of(source, from_command_config, "--from")
    names = origin.topics(topics, pattern=topics_pattern)
    job = Mirror(
        topics=names,
        prefix=prefix,
        once=once,
        trigger=trigger,
        query_name=query_name or "mirror-" + "-".join(names[:3]),
        starting_offsets=starting_offsets,
        max_offsets_per_trigger=max_offsets_per_trigger,
        isolation_level=isolation_level,
        fail_on_data_loss=fail_on_data_loss,
        name=name,
        restart=restart,
        compression=compression,
    )
    to = kafka_of(target, to_command_config, "--to")
    check_mirror(origin, to, job)  # before Spark is started, which takes longer
    session = start("odradek mirror", careful(spark))
    written, skipped = run_mirror(session, origin, to, job)
    line = f"{count_of(written, 'record')} written"
    click.echo(f"{line}, {skipped} were there already" if skipped else line)
