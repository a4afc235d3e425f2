"""Spark's data source for segment files: `spark.read.format("odradek")` on a data directory.

No broker is involved.  Only `source.py` imports pyspark, and only `columns.py` pyarrow; the
decoding below it is done with numpy in `finding.py`, `fields.py` and `varints.py`.
"""
