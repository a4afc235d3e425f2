"""Options of the data source: names and formats of Spark's Kafka source."""

import pytest

from odradek.pipeline.errors import PipelineError
from odradek.pipeline.offsets import TopicPartition
from odradek.pipeline.segments.options import Bound, ReadOptions, parse_options

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parse(**given: str) -> ReadOptions:
    return parse_options({"path": "/data", **given})


def test_nothing_but_a_directory() -> None:
    assert parse() == ReadOptions(("/data",))
    assert parse_options({"PATH": "file:///a%20b/"}).directories == ("/a b",)
    assert parse_options({"paths": '["/a", "/b"]'}).directories == ("/a", "/b")


def test_topics_and_partitions() -> None:
    assert parse(topics="a, b").topics == parse(subscribe="a,b").topics == ("a", "b")
    assert parse(topics="a", subscribe="a").topics == ("a",)
    chosen = parse(assign='{"a": [0, 2], "b": [1]}')
    assert chosen.names("a", 2) and chosen.names("b", 1) and not chosen.names("b", 0)
    pattern = parse(subscribePattern="or.*s", partitions="0,3")
    assert pattern.names("orders", 3)
    assert not pattern.names("orders", 1) and not pattern.names("orders-2", 3)
    assert not parse().names("__consumer_offsets", 0)
    assert parse(topics="__consumer_offsets").names("__consumer_offsets", 0)


def test_bounds_and_which_of_them_wins() -> None:
    given = {
        "startingOffsets": '{"t": {"0": 5, "1": -2}}',
        "endingOffsets": '{"t": {"0": -1, "1": 9}}',
    }
    both = parse(**given)
    assert both.starting == Bound(offsets={T0: 5, T1: -2})
    assert both.ending == Bound(offsets={T0: -1, T1: 9})
    by_time = parse(**given, startingOffsetsByTimestamp='{"t": {"0": 1000}}', endingTimestamp="7")
    assert by_time.starting == Bound(timestamps_ms={T0: 1000})
    assert by_time.ending == Bound(timestamp_ms=7)
    assert parse(startingTimestamp="1", startingOffsetsByTimestamp="{}").starting == Bound(1)
    assert parse(startingOffsets="EARLIEST", endingOffsets="latest") == parse()


def test_the_rest() -> None:
    result = parse(
        isolation="read_committed",
        includeHeaders="TRUE",
        toLogEnd="true",
        failOnDataLoss="false",
        mode="failfast",
        minPartitions="12",
        maxPartitionBytes="16 MB",
        startingOffsetsByTimestampStrategy="latest",
    )
    assert result == ReadOptions(
        ("/data",),
        committed_only=True,
        include_headers=True,
        to_log_end=True,
        fail_on_data_loss=False,
        fail_on_damage=True,
        min_partitions=12,
        partition_bytes_max=16 << 20,
        latest_if_no_time=True,
    )
    assert parse(**{"kafka.isolation.level": "read_committed"}).committed_only
    assert not parse(isolation="read_uncommitted").committed_only


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"topic": "t"}, "no option topic; it has .*topics"),
        ({"topics": "a", "assign": "{}"}, "only one of topics"),
        ({"topics": "a", "subscribe": "b"}, "topics and subscribe mean the same"),
        (
            {"isolation": "read_uncommitted", "kafka.isolation.level": "read_committed"},
            "isolation and kafka.isolation.level mean the same",
        ),
        ({"topics": " ,"}, "names no topic"),
        ({"startingOffsets": "latest"}, '"earliest" or offsets'),
        ({"startingOffsets": '{"t": {"0": -1}}'}, "-1 for t-0 has no meaning"),
        ({"endingOffsets": '{"t": {"0": -2}}'}, "-2 for t-0 has no meaning"),
        ({"endingOffsets": '{"t": {"0": "5"}}'}, "no whole number"),
        ({"endingOffsets": '{"t": [5]}'}, "can't be used"),
        ({"endingOffsets": "{"}, "can't be used"),
        ({"startingTimestamp": "yesterday"}, "can't be used"),
        ({"isolation": "serializable"}, "read_uncommitted or read_committed"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"mode": "PERMISSIVE"}, "DROPMALFORMED or FAILFAST"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"maxPartitionBytes": "many"}, "a size such as"),
        ({"subscribePattern": "("}, "can't be used"),
        ({"path": "data"}, "absolute path"),
        ({"path": "hdfs://name/data"}, "absolute path"),
        ({"path": ""}, "name a data directory"),
    ],
)
def test_what_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        parse_options({"path": "/data", **given})
