"""PySpark's classes for annotations, as `Any`: PySpark is not imported before a job runs."""

from typing import Any

SparkSession = Any
DataFrame = Any
Row = Any
DataStreamWriter = Any
StreamingQuery = Any
