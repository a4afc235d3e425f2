"""Spark's settings: the user's from all sources, and our defaults for the rest."""

import os
import re
import shlex
from collections.abc import Collection, Mapping
from glob import glob
from pathlib import Path
from typing import Final

from .errors import PipelineError
from .properties import read_properties

DEFAULT_MASTER: Final = "local[*]"
MASTERS: Final = re.compile(r"local(\[[^\]]+\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+")
DRIVER_MEMORY_MIB_MIN: Final = 1024
DRIVER_MEMORY_MIB_MAX: Final = 4096
# Options of spark-submit that people put into PYSPARK_SUBMIT_ARGS, and the settings they stand for.
_SUBMIT_OPTIONS: Final = {
    "--master": "spark.master",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--exclude-packages": "spark.jars.excludes",
    "--repositories": "spark.jars.repositories",
    "--files": "spark.files",
    "--archives": "spark.archives",
    "--py-files": "spark.submit.pyFiles",
    "--queue": "spark.yarn.queue",
    "--driver-cores": "spark.driver.cores",
    "--driver-library-path": "spark.driver.extraLibraryPath",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--driver-class-path": "spark.driver.extraClassPath",
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
}
_EVERYWHERE: Final = {
    "spark.sql.session.timeZone": "UTC",  # dates must not depend on who runs the job
    "spark.ui.showConsoleProgress": "false",  # the jobs show their own
    "spark.log.level": "ERROR",  # warnings of Kafka's clients do not concern the user
}


def user_settings(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """spark-defaults.conf, overridden by PYSPARK_SUBMIT_ARGS.  Raises: PipelineError."""
    folder = Path(environ.get("SPARK_CONF_DIR") or home / "conf")
    defaults = folder / "spark-defaults.conf"
    settings = read_properties(str(defaults)) if defaults.exists() else {}
    settings.update(submit_settings(environ.get("PYSPARK_SUBMIT_ARGS", "")))
    return settings


def submit_settings(text: str) -> dict[str, str]:
    """The settings among spark-submit's arguments.  Raises: PipelineError."""
    settings: dict[str, str] = {}
    try:
        arguments = iter(shlex.split(text))
    except ValueError as error:
        raise PipelineError(
            f"PYSPARK_SUBMIT_ARGS cannot be read ({error}): close each quotation, {text!r}"
        ) from error
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if name in ("--conf", "-c", *_SUBMIT_OPTIONS):
            value = value if equals else next(arguments, "")
            if name in _SUBMIT_OPTIONS:
                settings[_SUBMIT_OPTIONS[name]] = value
            else:
                key, _, setting = value.partition("=")
                settings[key] = setting
    return settings


def without_settings(text: str, names: Collection[str]) -> str:
    """spark-submit's arguments without those that stand for one of these settings."""
    kept: list[str] = []
    words = iter(shlex.split(text))
    for word in words:
        argument = [word]
        if word in ("--conf", "-c", *_SUBMIT_OPTIONS):
            argument += [value for value in [next(words, None)] if value is not None]
        if not any(name in names for name in submit_settings(shlex.join(argument))):
            kept += argument
    return shlex.join(kept)


def check_master(master: str, environ: Mapping[str, str]) -> None:
    """Refuse an invalid master URL, or yarn without its configuration.  Raises: PipelineError."""
    if not MASTERS.fullmatch(master):
        raise PipelineError(
            f"--master {master} is none of local[N], local[*], spark://HOST:PORT, yarn, k8s://URL"
        )
    if master == "yarn" and not (environ.get("HADOOP_CONF_DIR") or environ.get("YARN_CONF_DIR")):
        raise PipelineError(
            "--master yarn needs HADOOP_CONF_DIR or YARN_CONF_DIR: set it to the folder with"
            " core-site.xml and yarn-site.xml"
        )


def defaults_for(master: str, cores: int, memory_bytes: int) -> dict[str, str]:
    """Defaults for a master; few of them on a cluster, whose administrators know better."""
    if not master.startswith("local"):
        return dict(_EVERYWHERE)
    mib = min(max(memory_bytes // 4 // 2**20, DRIVER_MEMORY_MIB_MIN), DRIVER_MEMORY_MIB_MAX)
    return {
        **_EVERYWHERE,
        "spark.driver.memory": f"{mib}m",
        "spark.driver.host": "127.0.0.1",  # a laptop's own name often resolves to nothing
        "spark.sql.shuffle.partitions": str(local_cores(master, cores)),
    }


def local_cores(master: str, cores: int) -> int:
    """How many tasks run concurrently in `local[N]`, `local[*]` or `local`."""
    found = re.match(r"local(?:\[(\d+|\*))?", master)
    if found is None or found[1] is None:
        return 1
    return cores if found[1] == "*" else int(found[1])


def expanded(jars: list[str]) -> list[str]:
    """Paths of jars with globs expanded; URIs are left as they are.  Raises: PipelineError."""
    found: list[str] = []
    for jar in jars:
        if "://" in jar:
            found.append(jar)
            continue
        paths = sorted(glob(os.path.expanduser(jar.removeprefix("file:"))))
        if not paths:
            raise PipelineError(f"--jars {jar}: there is no such file")
        found += paths
    return found


def listed(text: str | None) -> list[str]:
    """The items of a comma-separated list; None is an empty one."""
    return [part.strip() for part in (text or "").split(",") if part.strip()]
