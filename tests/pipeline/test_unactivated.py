"""A session of a Python whose environment is not activated: `python3` on the path is another."""

import subprocess
from pathlib import Path

import pytest

from tests.pipeline.filling import PARTITIONS, fill
from tests.spark.releases import present
from tests.spark.warm import environment
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]
COUNT = 300


def test_register_is_enough(server: Server, new_topic: NewTopicName, tmp_path: Path) -> None:
    spark = present("4.0")
    topic = new_topic("unactivated", partitions=PARTITIONS)
    fill(server.bootstrap_servers, topic, COUNT)
    other = tmp_path / "python3"  # has neither odradek nor pyarrow
    other.write_text(f'#!/bin/sh\nexec {spark.python} -I -S "$@"\n')
    other.chmod(0o755)
    env = environment()
    line = [str(spark.python), "-m", "tests.pipeline.unactivated", str(server.data_dir), topic]
    done = subprocess.run(
        [*line, spark.jvm_options],
        env={**env, "PATH": f"{tmp_path}:{env['PATH']}"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.stdout.split() == [str(COUNT)], done.stderr
