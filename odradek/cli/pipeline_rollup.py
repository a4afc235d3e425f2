"""`odradek pipeline rollup`: aggregates topics in windows, as a YAML file specifies."""

from importlib import resources
from pathlib import Path

import click
from click.core import ParameterSource

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.rollup import run_rollup
from odradek.pipeline.rollup_books import Noted
from odradek.pipeline.rollup_reading import read_spec
from odradek.pipeline.rollup_spec import Rollup
from odradek.pipeline.session import SparkOptions

from .commands import command
from .pipeline_options import fail_on_data_loss_option, kafka_options, once_option, spark_options


@command()
@click.option(
    "--spec",
    "spec_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    required=True,
    metavar="FILE",
    help="The YAML file of the rollup; --example shows every key.",
)
@click.option(
    "--example",
    is_flag=True,
    is_eager=True,  # else the spec would be asked for first
    expose_value=False,
    callback=lambda ctx, _, asked: _show_example(ctx) if asked else None,
    help="Print an example with every key, and run nothing.",
)
@once_option
@fail_on_data_loss_option
@kafka_options
@spark_options
def rollup(
    spec_file: Path, once: bool, fail_on_data_loss: bool, kafka: Kafka, spark: SparkOptions
) -> None:
    """Aggregate a topic in windows that a YAML file defines.

    Late and bad records are counted, and bad ones go to the dead letter topic. Parquet rows are
    exactly once, even if the job is killed. A topic gets each window at least once, with a key by
    which compaction keeps the result.
    """
    spec = read_spec(_text_of(spec_file), str(spec_file))
    noted = run_rollup(
        spec, _kafka_of(spec, kafka), spark, once=once, fail_on_data_loss=fail_on_data_loss
    )
    if noted is None:
        click.echo(f"{spec.name}: no records yet")
    else:
        click.echo(_summary(spec, noted))


def _show_example(ctx: click.Context) -> None:
    example = resources.files("odradek.pipeline").joinpath("rollup-example.yaml")
    click.echo(example.read_text(encoding="utf-8"), nl=False)
    ctx.exit()


def _text_of(spec_file: Path) -> str:
    try:
        return spec_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{spec_file} cannot be read as text in UTF-8: {error}") from error


def _kafka_of(spec: Rollup, kafka: Kafka) -> Kafka:
    """The cluster that the spec names, unless the command line names one."""
    source = click.get_current_context().get_parameter_source("bootstrap_servers")
    if spec.source.bootstrap_servers is None or source is ParameterSource.COMMANDLINE:
        return kafka
    return Kafka(
        spec.source.bootstrap_servers, kafka.properties, option="the spec's `bootstrap_servers`"
    )


def _summary(spec: Rollup, noted: Noted) -> str:
    total = noted.total
    letters = "" if spec.dead_letters is None else f" (in {spec.dead_letters})"
    partly = f", {total.partly_late:,} late for some windows" if total.partly_late else ""
    return (
        f"{spec.name}: {total.records:,} records, {total.late:,} late{partly},"
        f" {total.bad:,} bad{letters}; {noted.rows:,} rows written"
    )
