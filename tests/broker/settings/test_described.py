"""DescribeConfigs; the expectations were seen on Kafka 3.9.2."""

import pytest

from odradek.broker.config import Config, Described
from odradek.broker.settings.described import (
    DEFAULT_CONFIG,
    DYNAMIC_TOPIC_CONFIG,
    STATIC_BROKER_CONFIG,
)


def broker(name: str, **given: str) -> Described:
    config = Config({key.replace("_", "."): value for key, value in given.items()})
    [described] = config.describe_broker([name])
    return described


def topic(name: str, overrides: dict[str, str] | None = None, **given: str) -> Described:
    config = Config({key.replace("_", "."): value for key, value in given.items()})
    [described] = config.describe_topic(overrides or {}, [name])
    return described


def test_a_default() -> None:
    described = broker("num.partitions")
    assert described.value == "1"
    assert described.source == DEFAULT_CONFIG
    assert described.is_default
    assert described.synonyms == (("num.partitions", "1", DEFAULT_CONFIG),)
    assert described.type_code == 3
    assert described.read_only
    assert not described.is_sensitive
    assert described.documentation.startswith("Partitions of a topic")


def test_a_value_from_the_file() -> None:
    described = broker("log.segment.bytes", log_segment_bytes="2000")
    assert (described.value, described.source) == ("2000", STATIC_BROKER_CONFIG)
    assert described.synonyms == (
        ("log.segment.bytes", "2000", STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", DEFAULT_CONFIG),
    )
    assert not described.read_only
    assert not described.is_default


def test_a_value_without_an_effect_is_shown_too() -> None:
    assert broker("log.retention.hours", log_retention_hours="24").value == "24"


def test_an_unset_value_has_no_synonym() -> None:
    described = broker("log.roll.ms")
    assert (described.value, described.source, described.synonyms) == (None, DEFAULT_CONFIG, ())


def test_a_password_is_not_shown() -> None:
    described = broker("ssl.key.password", ssl_key_password="hunter2")
    assert described.is_sensitive
    assert described.value is None
    assert described.synonyms == (("ssl.key.password", None, STATIC_BROKER_CONFIG),)
    assert "hunter2" not in repr(Config({"ssl.key.password": "hunter2"}).describe_broker())


@pytest.mark.parametrize(
    ("name", "code", "value"),
    [
        ("auto.create.topics.enable", 1, "true"),
        ("listeners", 2, "PLAINTEXT://127.0.0.1:9092"),
        ("offsets.commit.required.acks", 4, "-1"),
        ("log.retention.bytes", 5, "-1"),
        ("log.cleaner.io.max.bytes.per.second", 6, "1.7976931348623157E308"),
        ("ssl.enabled.protocols", 7, "TLSv1.2,TLSv1.3"),
        ("create.topic.policy.class.name", 8, None),
        ("sasl.jaas.config", 9, None),
    ],
)
def test_types(name: str, code: int, value: str | None) -> None:
    described = broker(name)
    assert (described.type_code, described.value) == (code, value)


def test_a_broker_shows_everything_in_order() -> None:
    described = Config().describe_broker()
    names = [one.name for one in described]
    assert names == sorted(names)
    assert len(names) > 316
    assert all(one.documentation for one in described)
    assert Config().describe_broker(["no.such.name"]) == []
    assert Config().describe_broker([]) == described


def test_a_topic_s_default() -> None:
    described = topic("segment.bytes")
    assert (described.value, described.source) == ("1073741824", DEFAULT_CONFIG)
    assert described.synonyms == (("log.segment.bytes", "1073741824", DEFAULT_CONFIG),)
    assert not described.read_only


def test_a_topic_s_own_value() -> None:
    described = topic("segment.bytes", {"segment.bytes": " 1000"}, log_segment_bytes="2000")
    assert (described.value, described.source) == ("1000", DYNAMIC_TOPIC_CONFIG)
    assert described.synonyms == (
        ("segment.bytes", "1000", DYNAMIC_TOPIC_CONFIG),
        ("log.segment.bytes", "2000", STATIC_BROKER_CONFIG),
        ("log.segment.bytes", "1073741824", DEFAULT_CONFIG),
    )


def test_a_value_in_other_units() -> None:
    described = topic("retention.ms", log_retention_hours="1")
    assert (described.value, described.source) == ("3600000", STATIC_BROKER_CONFIG)
    assert described.synonyms == (
        ("log.retention.hours", "1", STATIC_BROKER_CONFIG),
        ("log.retention.hours", "168", DEFAULT_CONFIG),
    )


def test_a_topic_s_setting_without_a_synonym() -> None:
    described = topic("leader.replication.throttled.replicas")
    assert (described.value, described.source, described.synonyms) == ("", DEFAULT_CONFIG, ())


def test_the_bound_of_timestamps_is_shown_as_it_was_set() -> None:
    overrides = {"message.timestamp.difference.max.ms": "100"}
    assert topic("message.timestamp.before.max.ms", overrides).value == str(2**63 - 1)


def test_a_topic_shows_everything_in_order() -> None:
    names = [one.name for one in Config().describe_topic({})]
    assert names == sorted(names)
    assert len(names) == 36
