"""Tables of a few rows from the driver, made in Spark's JVM alone.

`createDataFrame` would make the workers start Python for them.
"""

import json
from collections.abc import Iterable, Mapping

from .spark_types import DataFrame, SparkSession


def small_table(
    spark: SparkSession, rows: Iterable[Mapping[str, object]], columns: str
) -> DataFrame:
    """A table of rows that JSON can represent; `columns` is their schema in Spark's DDL."""
    from pyspark.sql import functions as f

    document = f.lit(json.dumps(list(rows)))
    return spark.range(1).select(f.inline(f.from_json(document, f"ARRAY<STRUCT<{columns}>>")))
