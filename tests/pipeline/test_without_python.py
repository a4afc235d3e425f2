"""Jobs whose workers need no Python: archive, compact, audit, rollup."""

from pathlib import Path

import pytest

from tests.pipeline.filling import PARTITIONS, fill
from tests.spark.environment import Spark
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.soak, pytest.mark.timeout(600)]

COUNT = 400
NO_PYTHON = {"PYSPARK_PYTHON": "/there/is/no/python"}
SPEC = """\
name: {topic}-counted
source: {{topics: [{topic}], bootstrap_servers: {servers}}}
schema: {{format: plain, fields: {{value: string}}}}
event_time: record_timestamp
watermark: 1 minute
window: 1 minute
key: value
measures: {{records: count}}
output: {{topic: {topic}-counted, parquet: {folder}/counted}}
dead_letters: {topic}-bad
checkpoint: {folder}/checkpoint
"""


def test_no_task_starts_a_python(
    release: Spark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    servers, topic = server.bootstrap_servers, new_topic("jvm-only", partitions=PARTITIONS)
    archive = str(tmp_path / "archive")
    (tmp_path / "spec.yaml").write_text(SPEC.format(topic=topic, servers=servers, folder=tmp_path))
    where = ("-b", servers, "--topics", topic)
    audit = ("audit", *where, "--archive", archive)
    spark = WarmSpark(release, tmp_path / "spark", env=NO_PYTHON)

    def code(*line: str) -> int:
        result = spark.command(*line)
        assert "there/is/no/python" not in result.stderr, result.stderr
        return result.code

    try:
        for first in (0, COUNT):
            fill(servers, topic, COUNT, first=first)
            assert code("archive", *where, "--to", archive, "--once") == 0
        assert code("compact", "--archive", archive) == 0
        assert code(*audit) == 0
        # A range that differs is looked at once more, record by record.
        fill(servers, topic, 1, first=2 * COUNT)
        next(Path(archive).glob("topic=*/date=*/*.parquet")).unlink()
        assert code(*audit) == 1
        assert code("rollup", "--spec", str(tmp_path / "spec.yaml"), "--once") == 0
    finally:
        spark.close()
