"""Spark's deprecated way to find offsets: the one place where it joins a consumer group."""

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.spark.rows import assert_exactly
from tests.spark.warm import WarmSpark
from tests.support.brokers import NewTopicName
from tests.wire.servers import Server

JOBS = "tests.spark.jobs"
ROW_COUNT = 1_000
DEPRECATED = {"spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true"}


@pytest.mark.parametrize("release", ["4.0"], indirect=True, scope="session")
def test_offsets_are_found_by_a_group(
    warm_spark: WarmSpark, server: Server, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic = new_topic("by-group")
    servers = server.bootstrap_servers
    warm_spark.run(f"{JOBS}.batch.write", servers=servers, topic=topic, count=ROW_COUNT, options={})

    prefix = f"{topic}-batch"
    summary = warm_spark.run(
        f"{JOBS}.batch.read",
        DEPRECATED,
        servers=servers,
        options={"subscribe": topic, "groupIdPrefix": prefix},
    )
    assert_exactly(summary, ROW_COUNT)
    assert groups_named(server, prefix)

    prefix = f"{topic}-stream"
    batches = warm_spark.run(
        f"{JOBS}.streams.archive_available",
        DEPRECATED,
        servers=servers,
        options={"subscribe": topic, "groupIdPrefix": prefix},
        directory=str(tmp_path),
    )
    assert sum(batches) == ROW_COUNT
    assert groups_named(server, prefix)


def groups_named(server: Server, prefix: str) -> list[str]:
    """The groups that the broker knows by now whose names begin so."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap_servers, "log_level": 0})
    listed = admin.list_consumer_groups().result(timeout=30)
    return [group.group_id for group in listed.valid if group.group_id.startswith(prefix)]
