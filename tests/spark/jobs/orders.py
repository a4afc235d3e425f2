"""The demo's jobs: write orders as JSON, stream them back, add them up by city."""

from typing import Any

from pyspark.sql import SparkSession

CITIES = ("Prague", "Vienna", "Berlin", "Brno", "Zürau")
SCHEMA = "order_id LONG, city STRING, amount_cents LONG"


def write(spark: SparkSession, *, servers: str, topic: str, count: int) -> None:
    """Write `count` orders, keyed by city."""
    cities = ", ".join(f"'{city}'" for city in CITIES)
    (
        spark.range(count)
        .selectExpr(
            "id AS order_id",
            f"element_at(array({cities}), CAST(id % {len(CITIES)} AS INT) + 1) AS city",
            "100 + id * 7919 % 10000 AS amount_cents",
        )
        .selectExpr("city AS key", "to_json(struct(*)) AS value")
        .write.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", topic)
        .save()
    )


def add_up(
    spark: SparkSession, *, servers: str, topic: str, directory: str
) -> list[dict[str, Any]]:
    """Stream all there is and keep a running table, one line a city."""
    orders = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", "20000")
        .load()
        .selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS sold")
        .select("sold.*")
    )
    query = (
        orders.groupBy("city")
        .agg({"order_id": "count", "amount_cents": "sum"})
        .withColumnsRenamed({"count(order_id)": "orders", "sum(amount_cents)": "revenue_cents"})
        .writeStream.format("memory")
        .queryName("sales")
        .outputMode("complete")
        .option("checkpointLocation", directory)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batches = sum(1 for progress in query.recentProgress if progress["numInputRows"])
    rows = spark.table("sales").orderBy("city").collect()
    return [{**row.asDict(), "batches": batches} for row in rows]
