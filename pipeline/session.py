"""Starts Spark sessions: the only place that knows connectors, defaults and versions."""

import logging
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from .connector import UNRESOLVED, not_downloaded
from .errors import PipelineError, explained
from .installation import CONNECTOR, Installation, check_java, find_installation, needs_download
from .settings import (
    DEFAULT_MASTER,
    check_master,
    defaults_for,
    expanded,
    listed,
    user_settings,
    without_settings,
)
from .spark_output import held_back
from .spark_types import SparkSession

CONNECT_TIMEOUT_S: Final = 5

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Spark options of the command line."""

    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    jars: Sequence[str] = ()
    verbose: bool = False
    """Whether to show all that Spark writes while it starts."""

    def with_defaults(self, conf: Mapping[str, str]) -> "SparkOptions":
        """A copy with settings that a job needs: only --conf overrides them."""
        return replace(self, conf={**conf, **self.conf})


def start(app: str, options: SparkOptions, *, needs_kafka: bool = True) -> SparkSession:
    """Start a session with the Kafka connector that fits it.  Raises: PipelineError.

    --conf overrides the user's spark-defaults, which override the defaults set here for a laptop.
    """
    pyspark = _import_pyspark()
    spark = installed()
    user = _user_settings(spark.home)
    settings = settings_for(
        spark,
        user,
        options,
        needs_kafka=needs_kafka,
        cores=os.cpu_count() or 1,
        memory_bytes=_memory_bytes(),
    )
    launches = pyspark.SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ
    if pyspark.SparkContext._gateway is None:
        _check_before_launch(spark, settings["spark.master"])
    if settings["spark.master"].startswith("local"):
        # Otherwise the workers run whatever `python3` is on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _quieten_pyspark()
    builder = pyspark.sql.SparkSession.builder.appName(app)
    for name, value in settings.items():
        builder = builder.config(name, value)
    quiet = held_back() if launches and not options.verbose else nullcontext()
    with explained(), _submit_args_without(settings), quiet as held:
        try:
            session = builder.getOrCreate()
        except Exception as error:
            if held is not None and UNRESOLVED in held.text():
                sentence = _not_downloaded(settings, user)
                if sentence is not None:
                    raise PipelineError(sentence) from error
            raise
    if "spark.log.level" in settings and "spark.log.level" not in options.conf:
        _quieten(session)
    logger.info("spark started version=%s master=%s", spark.version, settings["spark.master"])
    return session


def installed() -> Installation:
    """The Spark that sessions run.  Raises: PipelineError."""
    version = _import_pyspark().__version__
    return find_installation(_spark_home(), version)


def _not_downloaded(settings: Mapping[str, str], user: Mapping[str, str]) -> str | None:
    """Why the connector that a session was to download cannot be had; None: that is not why."""
    for package in listed(settings.get("spark.jars.packages")):
        if f":{CONNECTOR}_" in package:
            return not_downloaded(package, {**user, **settings})
    return None


def has_executors(spark: SparkSession) -> bool:
    """Whether tasks run outside of the driver's process, where they may be lost or remote."""
    master = str(spark.sparkContext.master)
    return master.startswith("local-cluster") or not master.startswith("local")


def _quieten_pyspark() -> None:
    """Silence the tracebacks of errors that PySpark and py4j also raise: we report those."""
    logging.getLogger("py4j").setLevel(logging.WARNING)
    # Errors raised in a batch cross py4j.
    logging.getLogger("py4j.clientserver").setLevel(logging.CRITICAL + 1)
    try:
        from pyspark.logger import PySparkLogger
    except ImportError:  # Spark 3.5
        return
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL + 1)


def _quieten(session: SparkSession) -> None:
    """Silence the JVM's trace when a query fails: the job reports the error in one sentence."""
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    for package in ("streaming", "streaming.runtime"):  # before and since Spark 4.1
        name = f"org.apache.spark.sql.execution.{package}.MicroBatchExecution"
        log4j.core.config.Configurator.setLevel(name, log4j.Level.OFF)


def settings_for(
    spark: Installation,
    user: Mapping[str, str],
    options: SparkOptions,
    *,
    needs_kafka: bool,
    cores: int,
    memory_bytes: int,
) -> dict[str, str]:
    """All settings for the session's builder; `user` are those that Spark reads by itself.

    Raises: PipelineError.
    """
    user = {**user, **options.conf}
    if options.master:
        user["spark.master"] = options.master
    master = user.get("spark.master", DEFAULT_MASTER)
    defaults = defaults_for(master, cores, memory_bytes)
    settings = {name: value for name, value in defaults.items() if name not in user}
    settings.update(options.conf)
    settings["spark.master"] = master
    jars = [*listed(user.get("spark.jars")), *expanded(list(options.jars))]
    if jars:
        settings["spark.jars"] = ",".join(jars)
    packages = listed(user.get("spark.jars.packages"))
    if needs_kafka and needs_download(spark, jars, packages):
        settings["spark.jars.packages"] = ",".join([*packages, spark.package])
        logger.info(
            "connector package=%s (Ivy downloads it, unless it has it; use --jars to avoid that)",
            spark.package,
        )
    return settings


def _user_settings(home: Path) -> dict[str, str]:
    """Settings that the user made outside of our command line."""
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return user_settings(home, os.environ)
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()  # spark-submit has put all of them into its JVM's properties
    return dict(SparkConf().getAll())


@contextmanager
def _submit_args_without(settings: Mapping[str, str]) -> Iterator[None]:
    """Within the block, PYSPARK_SUBMIT_ARGS lacks options whose settings are in `settings`.

    spark-submit lets its options override settings of the same meaning.  `settings` already has
    their values, or those of --conf, which take precedence.
    """
    told = os.environ.get("PYSPARK_SUBMIT_ARGS")
    if told is None:
        yield
        return
    os.environ["PYSPARK_SUBMIT_ARGS"] = without_settings(told, settings)
    try:
        yield
    finally:
        os.environ["PYSPARK_SUBMIT_ARGS"] = told


def _check_before_launch(spark: Installation, master: str) -> None:
    """Check what would otherwise fail late, or with an error of the JVM.

    Raises: PipelineError.
    """
    check_master(master, os.environ)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    check_java(spark, os.environ)
    if master.startswith("spark://"):
        _check_standalone(master)


def _check_standalone(master: str) -> None:
    """Check that a standalone master answers: Spark itself would retry for a minute."""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, ValueError, OverflowError):
            continue
        return
    raise PipelineError(
        f"no Spark master answers at {master}: start one"
        f" (spark-class org.apache.spark.deploy.master.Master), or check --master"
    )


def _spark_home() -> Path:
    from pyspark.find_spark_home import _find_spark_home

    return Path(_find_spark_home())


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _import_pyspark() -> Any:
    try:
        import pyspark
        import pyspark.sql
    except ImportError as error:
        raise PipelineError(
            f"this needs PySpark: pip install 'odradek[spark]' ({error})"
        ) from error
    return pyspark
