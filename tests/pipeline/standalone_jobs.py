"""What a session of Spark knows about the cluster that it runs on (worker.py calls these)."""

import sys
from typing import Any

from pyspark.sql import SparkSession

import odradek


def tasks_by_executor(spark: SparkSession) -> dict[str, int]:
    """How many tasks each executor has done; the driver is none."""
    context: Any = spark.sparkContext
    context._jsc.sc().listenerBus().waitUntilEmpty()
    executors = context._jsc.sc().statusStore().executorList(True)
    found = [executors.apply(number) for number in range(executors.size())]
    return {one.id(): one.completedTasks() for one in found if one.id() != "driver"}


def interpreters(spark: SparkSession) -> list[list[str]]:
    """Which Python and which odradek the executors have."""

    def look(_: int) -> tuple[str, str]:
        return sys.executable, str(odradek.__file__)

    seen = spark.sparkContext.parallelize(range(8), 8).map(look).distinct().collect()
    return [list(one) for one in sorted(seen)]
