"""The data pipeline: PySpark jobs on a broker's topics.

Jobs talk to brokers over the wire only.  Nothing here imports pyspark before a job runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: "SparkSession") -> None:
    """Let a session read segment files: `spark.read.format("odradek")`.  PySpark 4.0 and later.

    Not needed where `pyspark_odradek` is installed beside PySpark, which then finds it by itself.
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
        spark.dataSource.register(SegmentSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":  # PySpark has found it by itself
            raise
