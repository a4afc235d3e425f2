"""`odradek pipeline compact`: merges an archive's small files into few large ones."""

import click

from odradek.pipeline.archive import DEFAULTS, claim
from odradek.pipeline.archive_files import TARGET_BYTES
from odradek.pipeline.archive_files import compact as run_compact
from odradek.pipeline.before_spark import check_archive
from odradek.pipeline.files import Files
from odradek.pipeline.manifest import Archive
from odradek.pipeline.session import SparkOptions, start

from .commands import command
from .pipeline_options import spark_options
from .tables import count_of


@command()
@click.option(
    "--archive",
    "folder",
    metavar="DIR",
    required=True,
    help="A folder that `pipeline archive` has written.",
)
@click.option(
    "--target-bytes",
    type=click.IntRange(1),
    default=TARGET_BYTES,
    show_default=True,
    help="The approximate size of the new files; larger files are kept.",
)
@spark_options
def compact(spark: SparkOptions, folder: str, target_bytes: int) -> None:
    """Merge an archive's small files into a few large ones.

    Takes over the archive from a job that writes to it, and that job stops. Each folder changes
    atomically; meanwhile readers of plain Parquet may see its records twice.
    """
    check_archive(folder, spark)  # before Spark is started, which takes longer
    session = start("odradek compact", spark.with_defaults(DEFAULTS), needs_kafka=False)
    files = Files(session, folder)
    about = Archive(files).about()
    done = run_compact(session, claim(files), about, target_bytes)
    click.echo(f"{count_of(done.files_before, 'file')} became {done.files_after}: {folder}")
