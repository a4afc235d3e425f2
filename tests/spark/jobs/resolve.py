"""Start a session that names the connector as a package, so that Spark fetches it; then end."""

import sys

from pyspark.sql import SparkSession


def main(ivy_dir: str, package: str) -> None:
    """Leave the jars in `ivy_dir`/jars."""
    (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.ivy", ivy_dir)
        .config("spark.jars.packages", package)
        # The resolver looks into ~/.m2 too, where a half-filled repository would mislead it.
        .config("spark.driver.extraJavaOptions", f"-Duser.home={ivy_dir}")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
        .stop()
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
