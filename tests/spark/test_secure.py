"""Spark over SASL_SSL, with the options that `odradek serve --secure` writes for it."""

import json
from pathlib import Path

from tests.cli.test_serve import serving
from tests.cli.test_serve_secure import arguments, client_files
from tests.spark.rows import assert_exactly
from tests.spark.warm import WarmSpark

ROW_COUNT = 1_000


def test_spark_comes_in_with_its_file(warm_spark: WarmSpark, tmp_path: Path) -> None:
    with serving(*arguments(tmp_path)) as process:
        options = json.loads(client_files(process)["spark.json"].read_text())
        servers = options.pop("kafka.bootstrap.servers")
        write, read = "tests.spark.jobs.batch.write", "tests.spark.jobs.batch.read"
        warm_spark.run(write, servers=servers, topic="t", count=ROW_COUNT, options=options)
        found = warm_spark.run(read, servers=servers, options={**options, "subscribe": "t"})
    assert_exactly(found, ROW_COUNT)
