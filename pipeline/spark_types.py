"""PySpark's classes where types are checked: it has none there, and is not imported by the room."""

from typing import Any

SparkSession = Any
DataFrame = Any
Row = Any
DataStreamWriter = Any
StreamingQuery = Any
