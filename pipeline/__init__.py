"""The data pipeline: PySpark jobs on a broker's topics.

Jobs talk to brokers over the wire only.  Nothing here imports pyspark before a job runs.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Let a session read segment files: `spark.read.format("odradek")`.  PySpark 4.0 and later.

    Not needed where the Python that Spark's workers run (PYSPARK_PYTHON, else `python3`) has this
    package: Spark then finds it by itself.
    Raises: PipelineError (PySpark is older).
    """
    from .errors import PipelineError

    try:
        from .segments.source import SegmentSource
    except ImportError as error:
        raise PipelineError(
            'the data source "odradek" needs PySpark 4.0 or later with pyarrow and numpy: '
            f"install odradek[spark] ({error})"
        ) from error
    from pyspark.errors import AnalysisException

    try:
        with _python_of_workers(spark):
            spark.dataSource.register(SegmentSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # PySpark has found it by itself
            raise


@contextmanager
def _python_of_workers(spark: "SparkSession") -> Iterator[None]:
    """Within the block, what is registered runs in this Python, if its workers are here.

    Else they would run whatever `python3` is on the path, which is not this one where a virtual
    environment is not activated. A cluster's machines may have no Python at this path.
    """
    context = getattr(spark, "_sc", None)  # a session of Spark Connect has none
    if (
        context is None
        or str(context.master).partition("[")[0] != "local"
        or "PYSPARK_PYTHON" in os.environ
    ):
        yield
        return
    named, context.pythonExec = context.pythonExec, sys.executable
    try:
        yield
    finally:
        context.pythonExec = named
