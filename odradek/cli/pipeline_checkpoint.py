"""`odradek pipeline checkpoint`: compares a checkpoint's offsets with the log's."""

from dataclasses import asdict

import click

from odradek.pipeline.checkpoints import Checkpoint, Position, positions, read_checkpoint
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.files import Files, Folder
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.local_files import LocalFiles, local_path
from odradek.pipeline.session import SparkOptions, start
from odradek.pipeline.times import iso

from .commands import command
from .options import json_option
from .pipeline_options import kafka_options, spark_options
from .tables import NOTHING, show_json, show_table

COLUMNS = ("TOPIC", "PARTITION", "LOG-START", "NEXT", "LOG-END", "LAG", "STATE")


@command(
    epilog="Exit code 1: records that the checkpoint has yet to read are gone, and its job would"
    " stop (failOnDataLoss)."
)
@click.argument("folder", metavar="DIR")
@kafka_options
@json_option
@spark_options
@click.pass_context
def checkpoint(
    ctx: click.Context, *, folder: str, kafka: Kafka, as_json: bool, spark: SparkOptions
) -> None:
    """Compare the offsets where a streaming query continues with those of its topics.

    DIR is the checkpoint folder of any Structured Streaming query that reads Kafka. Spark is
    started only if the folder is not on this machine.
    """
    found = read_checkpoint(_folder(folder, spark))
    if found is None:
        raise PipelineError(f"{folder} holds no checkpoint: no batch was planned there")
    shown = _against_logs(found, kafka)
    if as_json:
        show_json(_document(found, shown))
    else:
        click.echo(_headline(found))
        show_table(COLUMNS, [_row(position) for position in shown])
    if any(position.state != "ok" for position in shown):
        ctx.exit(1)


def _folder(uri: str, spark: SparkOptions) -> Folder:
    path = local_path(uri)
    if path is None:
        return Files(start("odradek checkpoint", spark, needs_kafka=False), uri)
    if not path.is_dir():
        raise PipelineError(f"there is no folder {uri}: give the job's checkpoint folder")
    return LocalFiles(path)


def _against_logs(found: Checkpoint, kafka: Kafka) -> list[Position]:
    there = [topic for topic in found.committed_offsets if kafka.exists(topic)]
    starts = {topic: kafka.earliest(topic) for topic in there}
    ends = {topic: kafka.latest(topic) for topic in there}
    return positions(found, starts, ends)


def _headline(found: Checkpoint) -> str:
    ended = NOTHING if found.committed_batch_id is None else found.committed_batch_id
    line = f"batch {found.batch_id} planned, {ended} ended"
    if found.watermark_ms is not None:
        line += f", watermark {iso(found.watermark_ms)}"
    return line


def _row(position: Position) -> list[object]:
    state: str = position.state
    if position.lost:
        state = f"gone: {position.lost} offsets were removed before they were read"
    cells = (position.start, position.offset, position.end, position.lag)
    shown = [NOTHING if cell is None else cell for cell in cells]
    return [position.topic, position.partition, *shown, state]


def _document(found: Checkpoint, shown: list[Position]) -> dict[str, object]:
    return {
        "batch_id": found.batch_id,
        "committed_batch_id": found.committed_batch_id,
        "watermark_ms": found.watermark_ms,
        "partitions": [{**asdict(position), "lag": position.lag} for position in shown],
    }
