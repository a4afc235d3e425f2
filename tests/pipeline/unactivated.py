"""What a user runs as `venv/bin/python job.py`: a session that is not ours, and a segment read."""

import sys

from pyspark.sql import SparkSession

from odradek.pipeline import register


def main(data_dir: str, topic: str, jvm_options: str) -> None:
    """Print how many records a topic's segment files hold."""
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", jvm_options).getOrCreate()
    register(spark)
    print(spark.read.format("odradek").option("topics", topic).load(data_dir).count())


if __name__ == "__main__":
    main(*sys.argv[1:])
