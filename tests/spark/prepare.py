"""Fetch Spark's Kafka connectors: `python -m tests.spark.prepare [4.0] [3.5]`, again if need be.

Spark's own resolver does it, as for any user who sets `spark.jars.packages`, but once: later
sessions take the jars from `.cache/spark` and start without looking at any repository.

The newest release's classes are also written down as its JVM maps them into memory.  Of the older
one the tests start one JVM only, which would not gain what the writing costs.
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.spark.environment import CACHE, JVM_OPTIONS, RELEASES, ROOT, STAMP, Spark


class ConnectorMissing(Exception):
    """The connector could not be fetched; the message ends with what the resolver said."""


def fetch(spark: Spark) -> list[Path]:
    """Return the connector's jars, fetching them first if need be.  Raises: ConnectorMissing."""
    if not spark.connector_jars():
        CACHE.mkdir(parents=True, exist_ok=True)
        # Fetch beside the target and rename: a run cut short leaves nothing half.
        fresh = Path(tempfile.mkdtemp(prefix=f".{spark.name}-", dir=CACHE))
        try:
            _resolve(spark, fresh)
            shutil.rmtree(spark.connector_dir, ignore_errors=True)
            (fresh / "jars").rename(spark.connector_dir)
            (spark.connector_dir / STAMP).touch()
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return spark.connector_jars()


def write_classes(spark: Spark) -> bool:
    """Write Spark's classes down for this Java, unless that is done; whether they are there."""
    key = spark.classes.with_suffix(".key")
    wanted = f"{_java_version()}\n{(spark.home / 'jars').stat().st_mtime_ns}\n{JVM_OPTIONS}\n"
    if spark.classes.exists() and key.exists() and key.read_text() == wanted:
        return True
    fresh = spark.classes.with_suffix(".fresh")
    fresh.unlink(missing_ok=True)
    options = f"{JVM_OPTIONS} {shlex.quote(f'-XX:ArchiveClassesAtExit={fresh}')}"
    command = [str(spark.python), "-m", "tests.spark.jobs.classes", options]
    env = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    if not fresh.exists():
        print(done.stderr[-1000:], file=sys.stderr)
        return False
    fresh.rename(spark.classes)
    key.write_text(wanted)
    return True


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else "java"
    return subprocess.run([java, "-version"], capture_output=True, text=True).stderr


def _resolve(spark: Spark, ivy_dir: Path) -> None:
    command = [str(spark.python), "-m", "tests.spark.jobs.resolve", str(ivy_dir), spark.package]
    done = subprocess.run(
        command,
        cwd=ivy_dir,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode != 0 or not any((ivy_dir / "jars").glob("*spark-sql-kafka*.jar")):
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise ConnectorMissing(f"Spark could not fetch {spark.package}:\n{tail}")


def main(names: Sequence[str]) -> int:
    """Fetch the named connectors, or all; print one line each."""
    newest = next(iter(RELEASES))
    for name in names or RELEASES:
        if name not in RELEASES:
            print(f"unknown release {name}; there are {', '.join(RELEASES)}", file=sys.stderr)
            return 2
        spark = RELEASES[name]
        try:
            jars = fetch(spark)
            if name == newest and not write_classes(spark):
                print(f"spark {spark.version}: its classes cannot be mapped, JVMs start slowly")
        except (ConnectorMissing, OSError) as error:
            print(error, file=sys.stderr)
            return 1
        where = os.path.relpath(spark.connector_dir)
        print(f"spark {spark.version}: {len(jars)} connector jars in {where}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
