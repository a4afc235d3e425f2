import logging

import pytest

from odradek.broker.config import Config
from odradek.broker.settings.topic_config import TOPIC_SETTINGS
from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.records import Codec

HOUR_MS = 3_600_000


def test_a_topic_has_the_broker_s_values() -> None:
    config = Config(
        {
            "log.segment.bytes": "2000",
            "message.max.bytes": "3000",
            "log.message.timestamp.type": "LogAppendTime",
            "producer.id.expiration.ms": "77",
            "odradek.decompressed.batch.bytes.max": "5000",
        }
    )
    topic = config.topic_config()
    assert topic is config.topic_config({})
    assert (topic.segment_bytes, topic.max_message_bytes) == (2000, 3000)
    assert topic.is_log_append_time
    assert not topic.is_compacted
    assert topic.log_config.segment_bytes == 2000
    assert topic.log_config.message_timestamp_log_append
    assert topic.log_config.producer_id_expiration_ms == 77
    assert topic.log_config.record_bytes_max == 5000


def test_a_topic_s_own_values_win() -> None:
    topic = Config({"log.segment.bytes": "2000"}).topic_config(
        {"segment.bytes": " 1000 ", "cleanup.policy": "compact, delete", "segment.ms": "5"}
    )
    assert topic.segment_bytes == topic.log_config.segment_bytes == 1000
    assert topic.cleanup_policy == ("compact", "delete")
    assert topic.is_compacted
    assert topic.log_config.segment_ms == 5


@pytest.mark.parametrize(
    ("given", "segment_ms", "retention_ms"),
    [
        ({}, 168 * HOUR_MS, 168 * HOUR_MS),
        ({"log.roll.hours": "2", "log.retention.hours": "3"}, 2 * HOUR_MS, 3 * HOUR_MS),
        ({"log.roll.ms": "5", "log.roll.hours": "2"}, 5, 168 * HOUR_MS),
        (
            {"log.retention.hours": "3", "log.retention.minutes": "4"},
            168 * HOUR_MS,
            4 * 60_000,
        ),
        ({"log.retention.ms": "-1", "log.retention.minutes": "4"}, 168 * HOUR_MS, -1),
    ],
)
def test_finer_units_win(given: dict[str, str], segment_ms: int, retention_ms: int) -> None:
    topic = Config(given).topic_config()
    assert (topic.segment_ms, topic.retention_ms) == (segment_ms, retention_ms)


def test_the_older_bound_of_timestamps_counts_where_no_newer_is_set() -> None:
    topic = Config().topic_config(
        {"message.timestamp.difference.max.ms": "100", "message.timestamp.after.max.ms": "5"}
    )
    assert topic.message_timestamp_before_max_ms == 100
    assert topic.message_timestamp_after_max_ms == 5


@pytest.mark.parametrize(
    ("overrides", "word"),
    [
        ({"nonsense": "1"}, "no topic config named 'nonsense'"),
        ({"x" * 1000: "1"}, "no topic config named"),
        ({"segment.bytes": None}, "has no value"),
        ({"segment.bytes": "13"}, "at least 14"),
        ({"segment.bytes": "abc"}, "segment.bytes=abc"),
        ({"retention.ms": ""}, "retention.ms="),
        ({"cleanup.policy": "shred"}, "a list of compact, delete"),
        ({"compression.type": "none"}, "one of uncompressed, zstd, lz4, snappy, gzip, producer"),
        ({"compression.gzip.level": "0"}, "from 1 to 9, or -1"),
        ({"compression.gzip.level": "10"}, "from -1 to 9"),
        ({"compression.lz4.level": "0"}, "from 1 to 17"),
        ({"compression.zstd.level": "23"}, "from -131072 to 22"),
        ({"message.downconversion.enable": "true"}, "only false is"),
        ({"remote.storage.enable": "true"}, "only false, the default, is"),
        ({"local.retention.ms": "5"}, "only -2, the default, is"),
        ({"min.cleanable.dirty.ratio": "2"}, "from 0 to 1"),
        ({"preallocate": "maybe"}, "true or false"),
        ({"min.insync.replicas": "0"}, "at least 1"),
        ({"leader.replication.throttled.replicas": "x"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:2,3"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:2,*"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:2:3"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:-2"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:\u0662"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "2147483648:1"}, "PARTITION:BROKER"),
        ({"follower.replication.throttled.replicas": "1:" + "9" * 99}, "PARTITION:BROKER"),
        (
            {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
            "min.compaction.lag.ms=10 must not be above max.compaction.lag.ms=5",
        ),
    ],
)
def test_what_a_client_may_not_set(overrides: dict[str, str | None], word: str) -> None:
    with pytest.raises(Refused) as refused:
        Config().check_topic_config(overrides)
    assert refused.value.code is ErrorCode.INVALID_CONFIG
    assert refused.value.message is not None
    assert word in refused.value.message
    assert len(refused.value.message) < 300


def test_what_a_client_may_set() -> None:
    config = Config()
    assert config.check_topic_config({}) == []
    assert config.check_topic_config({"segment.bytes": "1000", "max.message.bytes": "5"}) == []
    assert config.check_topic_config({"retention.ms": "604800000", "preallocate": "FALSE"}) == []
    assert config.check_topic_config(
        {
            "cleanup.policy": " compact ",
            "retention.ms": "-1",
            "preallocate": "true",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "follower.replication.throttled.replicas": "*",
            "compression.type": "zstd",
            "compression.zstd.level": "19",
        }
    ) == [
        "preallocate=true",
    ]


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        ("0:1", ((0, 1),)),
        (" 0:1 , 3:2 ", ((0, 1), (3, 2))),
        ("0:1,,3:2", ((0, 1), (3, 2))),
        ("*", ((0, 1), (3, 2), (7, 7))),
        ("*,", ((0, 1), (3, 2), (7, 7))),
    ],
)
def test_which_replicas_are_throttled(text: str, pairs: tuple[tuple[int, int], ...]) -> None:
    overrides = {"leader.replication.throttled.replicas": text}
    assert Config().check_topic_config(overrides) == []
    config = Config().topic_config(overrides)
    tried = ((0, 1), (3, 2), (7, 7))
    assert tuple(pair for pair in tried if pair in config.throttled_leaders) == pairs
    assert not any(pair in config.throttled_followers for pair in tried)


def test_stored_as_the_broker_s_own_value_is_no_news() -> None:
    config = Config({"log.preallocate": "true"})
    reserve = "preallocate"
    assert config.check_topic_config({reserve: "true"}) == []
    assert config.check_topic_config({reserve: "false"}) == [f"{reserve}=false"]


def test_what_another_broker_stored_does_not_stop_this_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        topic = Config().topic_config(
            {"compression.type": "lzma", "from.the.future": "1", "segment.bytes": "1000"}
        )
    assert topic.compression is None
    assert topic.segment_bytes == 1000
    assert [record.getMessage() for record in caplog.records] == [
        "topic config ignored: compression.type=lzma is not allowed: it must be one of "
        "uncompressed, zstd, lz4, snappy, gzip, producer",
        "topic config ignored: there is no topic config named 'from.the.future'",
    ]


def test_every_setting_is_an_attribute() -> None:
    topic = Config().topic_config()
    for setting in TOPIC_SETTINGS.values():
        assert getattr(topic, setting.attribute) == setting.default


@pytest.mark.parametrize(
    ("name", "level", "compression"),
    [
        ("producer", "", None),
        ("uncompressed", "", (Codec.NONE, None)),
        ("snappy", "", (Codec.SNAPPY, None)),
        ("gzip", "", (Codec.GZIP, -1)),
        ("gzip", "7", (Codec.GZIP, 7)),
        ("lz4", "", (Codec.LZ4, 9)),
        ("lz4", "17", (Codec.LZ4, 17)),
        ("zstd", "", (Codec.ZSTD, 3)),
        ("zstd", "-131072", (Codec.ZSTD, -131072)),
    ],
)
def test_the_codec_of_a_topic_or_its_broker(
    name: str, level: str, compression: tuple[Codec, int | None] | None
) -> None:
    texts = {"compression.type": name}
    if level:
        texts[f"compression.{name}.level"] = level
    assert Config().topic_config(texts).compression == compression
    assert Config(texts).topic_config().compression == compression
