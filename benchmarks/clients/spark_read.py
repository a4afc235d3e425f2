"""Spark's Kafka source, batch: one session that reads the topics it is told, one line each.

The argument is the connector's jars, with commas.  A line on stdin is `HOST:PORT TOPIC`; the answer
on stdout is a line of JSON.  It runs in Spark's own environment, so it imports nothing of ours.
"""

import json
import sys
import time

from pyspark.sql import SparkSession


def session() -> SparkSession:
    """A local session."""
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", sys.argv[1])
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )


def read(spark: SparkSession, bootstrap: str, topic: str) -> dict[str, float]:
    """Bytes of values a second over a whole batch query, planning included."""
    frame = (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    began = time.perf_counter()
    size_bytes, records = frame.selectExpr("sum(length(value))", "count(*)").collect()[0]
    return {"rate": size_bytes / (time.perf_counter() - began), "records": records}


def main() -> None:
    """Answer until stdin ends."""
    spark = session()
    spark.sparkContext.setLogLevel("ERROR")
    for line in sys.stdin:
        bootstrap, topic = line.split()
        print(json.dumps(read(spark, bootstrap, topic)), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
