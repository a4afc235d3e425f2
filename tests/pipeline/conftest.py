"""Fixtures of the pipeline's tests: a real broker, commands of each Spark.

A test that takes `commands` or `warm_spark` runs with every release, in `make test` with an older
one only if it is marked `every_release` (tests/spark/releases.py); one that takes `warm_spark_4_0`,
as those of segment files do, with Spark 4.0 only.  `@pytest.mark.spark` is theirs to set.
"""

import pytest

from tests.pipeline.harness import Commands
from tests.spark.conftest import FOR_SPARK, OLD_RECORDS_STAY
from tests.spark.environment import Spark
from tests.support.brokers import NewTopicName, SharedServer, UniqueName, topics_on
from tests.wire.servers import Server


@pytest.fixture(scope="session")
def server(shared_server: SharedServer) -> Server:
    return shared_server(FOR_SPARK)


@pytest.fixture(scope="session")
def new_topic(server: Server, unique_name: UniqueName) -> NewTopicName:
    return topics_on(server, unique_name, partitions=3, config=OLD_RECORDS_STAY)


@pytest.fixture(scope="session")
def commands(release: Spark) -> Commands:
    """`odradek pipeline …` in a process."""
    return Commands(release)
