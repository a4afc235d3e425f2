"""`odradek pipeline replay`: writes an archived topic back to a topic."""

import sys
from typing import Final

import click

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.replay import Done, Replay, check_replay
from odradek.pipeline.replay import replay as run_replay
from odradek.pipeline.replay_plan import Wanted
from odradek.pipeline.session import SparkOptions, start
from odradek.pipeline.times import parse_time
from odradek.pipeline.writing import careful

from .commands import command
from .pipeline_options import (
    command_config_option,
    copy_options,
    kafka_of,
    kafka_options,
    spark_options,
)
from .tables import count_of

STOPPED: Final = 143
"""As for a process ended by SIGTERM: what follows `replay &&` needs the whole copy."""


@command(
    epilog="The same command goes on where an earlier run ended or was killed, and writes no record"
    " twice. Each record gets one more header, odradek.source, that names its source. Exit code"
    " 143: a signal stopped it before its end."
)
@click.option(
    "--archive", metavar="DIR", required=True, help="A folder that `pipeline archive` has written."
)
@kafka_options
@click.option("--topic", metavar="T", required=True, help="The archived topic.")
@click.option(
    "--to-topic",
    metavar="U",
    required=True,
    help="The topic to write to; if it does not exist, it is created like T.",
)
@click.option(
    "--source-bootstrap-servers",
    metavar="HOST:PORT,…",
    help="The cluster of T, to create U like it. Default: the archive's notes, or U's cluster.",
)
@command_config_option(" for T's cluster", "--source-command-config")
@click.option(
    "--keep-partitions",
    is_flag=True,
    help="Keep each record's partition number. Default: choose by key; records without a key "
    "stay together by source partition.",
)
@click.option(
    "--starting-offsets", metavar="N|P:N,…", help="The first offset, of all partitions or of some."
)
@click.option("--ending-offsets", metavar="N|P:N,…", help="The offset after the last one.")
@click.option("--starting-timestamp", metavar="TIME", help="Milliseconds or ISO 8601, inclusive.")
@click.option("--ending-timestamp", metavar="TIME", help="Milliseconds or ISO 8601, exclusive.")
@click.option(
    "--rate",
    type=click.FloatRange(min=0, min_open=True),
    metavar="N",
    help="The most records per second.",
)
@copy_options
@spark_options
def replay(
    *,
    archive: str,
    kafka: Kafka,
    topic: str,
    to_topic: str,
    source_bootstrap_servers: str | None,
    source_command_config: str | None,
    keep_partitions: bool,
    starting_offsets: str | None,
    ending_offsets: str | None,
    starting_timestamp: str | None,
    ending_timestamp: str | None,
    rate: float | None,
    name: str,
    restart: bool,
    compression: str | None,
    spark: SparkOptions,
) -> None:
    """Write archived records to a topic, each exactly once and in the order of its partition."""
    wanted = Wanted(
        starting_offsets,
        ending_offsets,
        _time(starting_timestamp, "--starting-timestamp"),
        _time(ending_timestamp, "--ending-timestamp"),
    )
    job = Replay(
        topic=topic,
        to_topic=to_topic,
        wanted=wanted,
        keep_partitions=keep_partitions,
        rate=rate,
        name=name,
        restart=restart,
        compression=compression,
    )
    source = _source(source_bootstrap_servers, source_command_config)
    check_replay(archive, kafka, job, spark)  # before Spark is started, which takes longer
    session = start("odradek replay", careful(spark))
    done = run_replay(session, archive, kafka, job, source=source)
    click.echo(_summary(done, job))
    if done.stopped:
        sys.exit(STOPPED)


def _source(bootstrap_servers: str | None, command_config: str | None) -> Kafka | None:
    if bootstrap_servers is not None:
        return kafka_of(bootstrap_servers, command_config, "--source-bootstrap-servers")
    if command_config is not None:
        raise PipelineError("--source-command-config needs --source-bootstrap-servers")
    return None


def _time(text: str | None, option: str) -> int | None:
    return None if text is None else parse_time(text, option)


def _summary(done: Done, job: Replay) -> str:
    line = f"{count_of(done.written, 'record')} written to {job.to_topic}"
    if done.skipped:
        line += f", {done.skipped} were there already"
    if done.stopped:
        line += "; stopped before the end, the same command goes on"
    return line
