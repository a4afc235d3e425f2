"""Tables of a few rows that the driver knows, made by Spark's JVM alone.

`createDataFrame` has the workers start a Python for them, which they need not have.
"""

import json
from collections.abc import Iterable, Mapping

from .spark_types import DataFrame, SparkSession


def small_table(
    spark: SparkSession, rows: Iterable[Mapping[str, object]], columns: str
) -> DataFrame:
    """Rows of what JSON can hold; `columns` is their schema as Spark's DDL has it."""
    from pyspark.sql import functions as f

    document = f.lit(json.dumps(list(rows)))
    return spark.range(1).select(f.inline(f.from_json(document, f"ARRAY<STRUCT<{columns}>>")))
