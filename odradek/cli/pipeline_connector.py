"""`odradek pipeline connector`: fetches Spark's Kafka connector for machines without a network."""

from pathlib import Path

import click

from odradek.pipeline.connector import ivy_folder, kept, package_of
from odradek.pipeline.session import SparkOptions, installed, start

from .commands import command
from .pipeline_options import spark_options


@command(
    epilog="What it prints is an option of every job, and of spark-submit; or put the setting into"
    " conf/spark-defaults.conf."
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--spark-version", metavar="VERSION", help="Of pip's pyspark  [default: the one installed]"
)
@spark_options
def connector(*, folder: Path, spark_version: str | None, spark: SparkOptions) -> None:
    """Download Spark's Kafka connector and its dependencies into DIR.

    Spark downloads it as for a job, from the repositories in --conf (spark.jars.ivySettings,
    spark.jars.repositories). Prints the --conf with which a job needs no download.
    """
    package = package_of(installed(), spark_version)
    with ivy_folder() as ivy:
        wanted = {"spark.jars.packages": package, "spark.jars.ivy": ivy}
        start("odradek connector", spark.with_defaults(wanted), needs_kafka=False).stop()
        jars = kept(Path(ivy, "jars"), folder)
    click.echo(f"--conf spark.jars={','.join(map(str, jars))}")
