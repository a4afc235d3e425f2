"""A process with one warm Spark: runs `odradek pipeline` commands and named jobs, one at a time.

Starting a JVM for each check takes too long.  Reads one JSON object a line from stdin,
{"command": ["archive", "--topics", ...]} or
{"job": "package.module.function", "arguments": {...}, "conf": {...}},
and answers each with one line on the file descriptor that it was given: {"value": ...} or
{"error": "traceback"}.  Ends with its stdin.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner

from odradek.cli.pipeline import pipeline
from odradek.pipeline.session import SparkOptions, start


def run(request: dict[str, Any], options: SparkOptions) -> dict[str, Any]:
    """Run one request; what it returned, or the traceback."""
    try:
        if "command" in request:
            return {"value": command(request["command"], options)}
        module, _, name = request["job"].rpartition(".")
        job = getattr(importlib.import_module(module), name)
        spark = start("odradek-tests", options)
        with configured(spark, request["conf"]):
            return {"value": job(spark, **request["arguments"])}
    except Exception:  # noqa: BLE001 - whatever went wrong is the answer
        return {"error": traceback.format_exc()}


@contextmanager
def configured(spark: Any, conf: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for one job."""
    for name, value in conf.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in conf:
            spark.conf.unset(name)


def command(arguments: list[str], options: SparkOptions) -> dict[str, Any]:
    """Run a command as the shell would, here.  It may stop the session: that is cheap."""
    result = CliRunner().invoke(pipeline, [*arguments, *spark_arguments(options)])
    error = result.exception
    if error is not None and not isinstance(error, SystemExit):
        raise error
    return {"code": result.exit_code, "stdout": result.stdout, "stderr": result.stderr}


def spark_arguments(options: SparkOptions) -> list[str]:
    """`options` as a user types them."""
    arguments = ["--master", str(options.master), "--jars", ",".join(options.jars)]
    for name, value in options.conf.items():
        arguments += ["--conf", f"{name}={value}"]
    return arguments


def main(answers: int, options: SparkOptions) -> None:
    """Serve until stdin ends."""
    with os.fdopen(answers, "w") as out:
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line), options)), file=out, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), SparkOptions(**json.loads(sys.argv[2])))
