"""A process with one Spark session that runs named jobs: starting a JVM per test takes too long.

Reads one JSON object a line from stdin, {"job": "batch.read", "arguments": {...}, "conf": {...}},
and answers each with one line on the file descriptor it was given: {"value": ...} or
{"error": "traceback"}.  Ends with its stdin.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.spark.environment import RELEASES


def session(name: str) -> SparkSession:
    """A small local Spark of a release, with its Kafka connector."""
    release = RELEASES[name]
    conf = {
        **release.small,
        "spark.jars": ",".join(map(str, release.connector_jars())),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("odradek-tests")
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def run(spark: SparkSession, request: dict[str, object]) -> dict[str, object]:
    """Run one job.  A job is a function of a module beside this one; the session comes first."""
    module, _, function = str(request["job"]).partition(".")
    try:
        job = getattr(importlib.import_module(f"tests.spark.jobs.{module}"), function)
        with configured(spark, request["conf"]):  # type: ignore[arg-type]
            return {"value": job(spark, **request["arguments"])}  # type: ignore[arg-type]
    except Exception:  # noqa: BLE001 - whatever went wrong is the answer
        return {"error": traceback.format_exc()}


@contextmanager
def configured(spark: SparkSession, conf: dict[str, str]) -> Iterator[None]:
    """Settings of the session for one job."""
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(name)


def main(answers: int, release: str) -> None:
    """Serve until stdin ends."""
    with os.fdopen(answers, "w") as out:
        spark = session(release)
        print(json.dumps({"value": spark.version}), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(run(spark, json.loads(line))), file=out, flush=True)
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
