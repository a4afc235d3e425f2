"""Options that jobs share: for Spark, brokers, topics and streams."""

import functools
import sys
from collections.abc import Callable
from typing import Final

import click

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.kafka import Kafka
from odradek.pipeline.properties import read_command_config
from odradek.pipeline.running import check_trigger
from odradek.pipeline.session import SparkOptions

from .logs import FORMATS, LEVELS, set_up_logging
from .options import parse_pairs

Job = Callable[..., None]

once_option: Final = click.option(
    "--once", is_flag=True, help="Process the records that exist now, then end (availableNow)."
)
fail_on_data_loss_option: Final = click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss",
    default=True,
    show_default=True,
    help="Whether to stop if offsets are gone that were not read yet.",
)


def command_config_option(of: str = "", name: str = "--command-config") -> Callable[[Job], Job]:
    """An option for a properties file; `of` says for which cluster, if a job uses two."""
    return click.option(
        name,
        type=click.Path(exists=True, dir_okay=False),
        metavar="FILE",
        help=f"Properties of Kafka's clients{of}, such as security.protocol.",
    )


def spark_options(job: Job) -> Job:
    """Add options of Spark, passed to a job as one argument `spark`, and of the log."""

    @click.option(
        "--master", metavar="URL", help="local[*] (the default), spark://…, yarn, k8s://…"
    )
    @click.option(
        "--conf",
        metavar="NAME=VALUE",
        multiple=True,
        callback=parse_pairs,
        help="A setting of Spark; may be repeated.",
    )
    @click.option(
        "--jars",
        metavar="JAR,…",
        default="",
        help="Spark's Kafka connector and its dependencies, instead of a download; globs are "
        "allowed.",
    )
    @click.option(
        "--verbose", is_flag=True, help="Show everything that Spark and Ivy print at the start."
    )
    @click.option("--log-format", type=click.Choice(FORMATS), default="plain", show_default=True)
    @click.option(
        "--log-level",
        type=click.Choice(LEVELS),
        help="Default: info; warning on a terminal, which shows the progress instead.",
    )
    @functools.wraps(job)
    def with_spark(
        master: str | None,
        conf: dict[str, str],
        jars: str,
        verbose: bool,
        log_format: str,
        log_level: str | None,
        **rest: object,
    ) -> None:
        set_up_logging(log_format, log_level or ("warning" if sys.stderr.isatty() else "info"))
        paths = tuple(path for path in jars.split(",") if path)
        job(spark=SparkOptions(master, conf, paths, verbose), **rest)

    return with_spark


def kafka_options(job: Job) -> Job:
    """Add --bootstrap-servers and --command-config, passed to a job as one argument `kafka`."""

    @click.option(
        "-b",
        "--bootstrap-servers",
        "--bootstrap-server",
        metavar="HOST:PORT,…",
        envvar="ODRADEK_BOOTSTRAP_SERVERS",
        default="localhost:9092",
        show_default=True,
        show_envvar=True,
        help="A broker of the cluster, or several.",
    )
    @command_config_option()
    @functools.wraps(job)
    def with_kafka(bootstrap_servers: str, command_config: str | None, **rest: object) -> None:
        job(kafka=kafka_of(bootstrap_servers, command_config), **rest)

    return with_kafka


def topics_options(job: Job) -> Job:
    """Add --topics and --topics-pattern to a job, of which exactly one must be given."""

    @click.option("--topics", metavar="T,U", help="The topics.")
    @click.option(
        "--topics-pattern",
        metavar="REGEX",
        help="All topics whose whole name matches; use a regular expression that both Java and "
        "Python understand.",
    )
    @functools.wraps(job)
    def with_topics(topics: str | None, topics_pattern: str | None, **rest: object) -> None:
        if (topics is None) == (topics_pattern is None):
            raise click.UsageError("give either --topics or --topics-pattern")
        names = () if topics is None else topic_names(topics)
        job(topics=names, topics_pattern=topics_pattern, **rest)

    return with_topics


def streaming_options(job: Job) -> Job:
    """Add --once and --trigger to a job, of which at most one may be given, and --query-name."""

    @once_option
    @click.option(
        "--trigger",
        metavar="INTERVAL",
        help='How often to start a batch, such as "10 seconds". Default: one after the other.',
    )
    @click.option(
        "--query-name",
        metavar="NAME",
        help="Name of the query; the group spark-NAME shows its lag.",
    )
    @functools.wraps(job)
    def with_stream(once: bool, trigger: str | None, **rest: object) -> None:
        if once and trigger is not None:
            raise click.UsageError("--once has no --trigger")
        if trigger is not None:
            check_trigger(trigger)
        job(once=once, trigger=trigger, **rest)

    return with_stream


def copy_options(job: Job) -> Job:
    """Add --name, --restart and --compression to a job that copies records."""

    @click.option(
        "--name",
        default="",
        metavar="NAME",
        help="The name of this copy, if there are several of one topic.",
    )
    @click.option(
        "--restart", is_flag=True, help="Copy everything again, whatever was copied before."
    )
    @click.option(
        "--compression", type=click.Choice(("none", "gzip")), default="none", show_default=True
    )
    @functools.wraps(job)
    def with_copy(compression: str, **rest: object) -> None:
        job(compression=None if compression == "none" else compression, **rest)

    return with_copy


def kafka_of(
    bootstrap_servers: str, command_config: str | None, option: str = "--bootstrap-servers"
) -> Kafka:
    """The cluster that two options name; `option` is the first of them.  Raises: PipelineError."""
    properties = read_command_config(command_config) if command_config else {}
    return Kafka(bootstrap_servers, properties, option=option)


def topic_names(text: str) -> list[str]:
    """The names in `T,U`, each once.  Raises: PipelineError."""
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names:
        raise PipelineError(f"{text!r} names no topic: give it as T or T,U")
    return names
