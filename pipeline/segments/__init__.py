"""Spark's data source for segment files: `spark.read.format("odradek")` on a data directory.

No broker takes part.  Only `source.py` imports pyspark, and only `columns.py` pyarrow; what leads
to its columns is done with numpy in `finding.py`, `fields.py` and `varints.py`.
"""
