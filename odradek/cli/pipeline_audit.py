"""`odradek pipeline audit`: compares broker, archive and copy."""

import json
import os
import sys
import time
from pathlib import Path

import click

from odradek.pipeline.audit import AuditJob, CopiedTopic
from odradek.pipeline.audit import audit as run_audit
from odradek.pipeline.audit_compare import State
from odradek.pipeline.audit_page import page
from odradek.pipeline.audit_report import Report, sentences, table, to_json
from odradek.pipeline.before_spark import check_archive
from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import ISOLATION_LEVELS, Kafka
from odradek.pipeline.session import SparkOptions, start

from .commands import command
from .pipeline_options import (
    command_config_option,
    kafka_of,
    kafka_options,
    spark_options,
    topic_names,
)
from .tables import show_table

NOT_EQUAL = 1


@command()
@kafka_options
@click.option(
    "--topics", metavar="T,…", required=True, help="The topics that were archived or copied."
)
@click.option("--archive", metavar="DIR", help="A folder that `pipeline archive` has written.")
@click.option(
    "--against-topic",
    metavar="U",
    help="A topic into which T was replayed or mirrored; with --archive it is compared with that.",
)
@click.option(
    "--against-bootstrap-servers",
    metavar="HOST:PORT,…",
    help="The cluster of U, if it differs from T's.",
)
@command_config_option(" for U's cluster", "--against-command-config")
@click.option(
    "--against-name",
    metavar="NAME",
    help="Only the copy that was written with --name NAME, if U contains several copies of T.",
)
@click.option(
    "--isolation-level",
    type=click.Choice(ISOLATION_LEVELS),
    help="How to read T. Default: that of the archive, else that of --command-config.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Count records that retention or compaction removed as differences.",
)
@click.option(
    "--allow-lag",
    is_flag=True,
    help="Do not count records before the first or after the last offset of archive or U as "
    "differences.",
)
@click.option(
    "--range-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="The number of offsets in a range. Default: about 64 ranges in the longest partition.",
)
@click.option("--json", "json_file", metavar="FILE", help="Write the report as JSON; - is stdout.")
@click.option("--html", "html_file", metavar="FILE", help="Write the report as a page with plots.")
@spark_options
def audit(
    kafka: Kafka,
    topics: str,
    archive: str | None,
    against_topic: str | None,
    against_bootstrap_servers: str | None,
    against_command_config: str | None,
    against_name: str | None,
    isolation_level: str | None,
    strict: bool,
    allow_lag: bool,
    range_size: int | None,
    json_file: str | None,
    html_file: str | None,
    spark: SparkOptions,
) -> None:
    """Compare a topic with its archive and with a topic it was copied to.

    Compares counts, missing and duplicated records, order and checksums for each partition and
    range of offsets. Records of U are compared by their original offsets. Offsets that both sides
    lack are not gaps. Records that retention or compaction removed count as differences only with
    --strict.

    Exit codes: 0 equal, 1 different, or behind (archive or U lack only records that may still
    arrive; 0 with --allow-lag), 2 could not run.
    """
    for file in (json_file, html_file):
        _make_room(file)
    if html_file == "-":
        raise PipelineError("--html - is no file: stdout has the table, or the report by --json -")
    if json_file and html_file and Path(json_file).resolve() == Path(html_file).resolve():
        raise PipelineError(f"--json and --html are both {html_file}: give each a file of its own")
    job = AuditJob(
        kafka=kafka,
        topics=topic_names(topics),
        archive=archive,
        copy=_copy(
            kafka, against_topic, against_bootstrap_servers, against_command_config, against_name
        ),
        isolation_level=isolation_level,
        strict=strict,
        allow_lag=allow_lag,
        range_size=range_size,
    )
    _check(job)
    # Before Spark is started, which takes longer.
    kafka.topics(job.topics)
    if job.copy is not None:
        job.copy.kafka.topics([job.copy.topic])
    if archive is not None:
        check_archive(archive, spark)
    session = start("odradek audit", spark)
    report = run_audit(session, job, now_ms=time.time_ns() // 1_000_000)
    _show(report, json_file, html_file)
    sys.exit(0 if report.state is State.EQUAL else NOT_EQUAL)


def _copy(
    kafka: Kafka,
    topic: str | None,
    bootstrap_servers: str | None,
    command_config: str | None,
    name: str | None,
) -> CopiedTopic | None:
    if command_config is not None and bootstrap_servers is None:
        raise PipelineError("--against-command-config needs --against-bootstrap-servers")
    if topic is None:
        for option, value in (("bootstrap-servers", bootstrap_servers), ("name", name)):
            if value is not None:
                raise PipelineError(f"--against-{option} needs --against-topic")
        return None
    if bootstrap_servers is not None:
        kafka = kafka_of(bootstrap_servers, command_config, "--against-bootstrap-servers")
    return CopiedTopic(kafka, topic, name)


def _check(job: AuditJob) -> None:
    if job.archive is None and job.copy is None:
        raise PipelineError("nothing to compare with: give --archive, --against-topic or both")
    if job.copy is None:
        return
    is_itself = job.copy.kafka is job.kafka and job.copy.topic in job.topics
    if is_itself:
        raise PipelineError(f"--against-topic {job.copy.topic} is itself one of --topics")


def _make_room(name: str | None) -> None:
    """Check before the work that a report can be written, and remove an earlier one."""
    if name is None or name == "-":
        return
    path = Path(name)
    if not path.absolute().parent.is_dir() or path.is_dir():
        raise PipelineError(f"{name} cannot be written: give a file in a folder that is there")
    if path.is_symlink() or not path.is_file():
        return
    try:
        path.unlink()
    except OSError:  # such as a container's file that is one of its host's
        try:
            path.write_bytes(b"")
        except OSError as error:
            raise PipelineError(f"{name} cannot be written: {error.strerror}") from error


def _show(report: Report, json_file: str | None, html_file: str | None) -> None:
    document = json.dumps(to_json(report), indent=2, ensure_ascii=False)
    # Files first: stdout may be closed.
    if json_file and json_file != "-":
        _write(json_file, document + "\n")
    if html_file:
        _write(html_file, page(report))
    if json_file == "-":
        click.echo(document)
    else:
        for comparison in report.comparisons:
            show_table(*table(comparison))
            click.echo()
        for sentence in sentences(report):
            click.echo(sentence)


def _write(name: str, text: str) -> None:
    """Write a report atomically, except into a file that `_make_room` could not remove."""
    path = Path(name)
    unfinished = path if os.path.lexists(path) else path.with_name(f".{path.name}.unfinished")
    try:
        unfinished.write_text(text, encoding="utf-8")
        if unfinished != path:
            unfinished.replace(path)
    except OSError as error:
        if unfinished != path:
            unfinished.unlink(missing_ok=True)
        raise PipelineError(f"{name} cannot be written: {error.strerror}") from error
