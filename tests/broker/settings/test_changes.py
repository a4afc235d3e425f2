"""Changes of configs; the expectations were seen on Kafka 3.9.2, but for what is not built here."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odradek.broker.config import BUILT, Config, ConfigError
from odradek.broker.settings.changes import ConfigChange, Operation, changed, check_form
from odradek.broker.settings.described import all_declared
from odradek.broker.settings.known import PER_BROKER, PER_LISTENER
from odradek.broker.settings.topic_config import TOPIC_SETTINGS
from odradek.protocol.errors import ErrorCode, Refused

SET, DELETE = Operation.SET, Operation.DELETE
APPEND, SUBTRACT = Operation.APPEND, Operation.SUBTRACT


def after(current: dict[str, str], *changes: tuple[str, int, str | None]) -> dict[str, str]:
    listed = [ConfigChange(*change) for change in changes]
    check_form(listed)
    return changed(current, listed, TOPIC_SETTINGS)


def code_of_form(*changes: tuple[str, int, str | None]) -> ErrorCode:
    with pytest.raises(Refused) as refused:
        check_form([ConfigChange(*change) for change in changes])
    return refused.value.code


def test_set_and_delete() -> None:
    current = {"segment.ms": "5"}
    assert after(current, ("retention.ms", SET, "7"), ("segment.ms", DELETE, None)) == {
        "retention.ms": "7"
    }
    assert after(current, ("retention.ms", DELETE, "anything")) == current
    assert current == {"segment.ms": "5"}


@pytest.mark.parametrize(
    ("before", "operation", "value", "then"),
    [
        (None, APPEND, "compact", "delete,compact"),
        (None, APPEND, "delete", "delete"),
        ("compact", APPEND, "delete", "compact,delete"),
        ("compact", APPEND, "compact, delete", "compact,delete"),
        ("delete,compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "compact", ""),
        ("compact", SUBTRACT, "delete", "compact"),
        ("", APPEND, "compact", "compact"),
        (None, SUBTRACT, "delete", ""),
        ("compact,compact", APPEND, "delete,delete", "compact,compact,delete"),
        ("compact,delete,compact", SUBTRACT, "compact,compact", "delete"),
    ],
)
def test_lists(before: str | None, operation: int, value: str, then: str) -> None:
    current = {} if before is None else {"cleanup.policy": before}
    assert after(current, ("cleanup.policy", operation, value))["cleanup.policy"] == then


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_long_lists(operation: Operation) -> None:
    """Each item compared with each other one would take ten minutes."""
    current, value = (",".join(map(str, range(*ends))) for ends in ((300_000,), (150_000, 450_000)))
    then = after({"cleanup.policy": current}, ("cleanup.policy", operation, value))
    assert then["cleanup.policy"].count(",") + 1 == {APPEND: 450_000, SUBTRACT: 150_000}[operation]


@pytest.mark.parametrize("name", ["segment.ms", "absent", ""])
@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_only_lists_are_appended_to(name: str, operation: int) -> None:
    with pytest.raises(Refused) as refused:
        after({}, (name, operation, "1"))
    assert refused.value.code == ErrorCode.INVALID_CONFIG


def test_a_change_must_say_what_it_wants() -> None:
    for needy in (SET, APPEND, SUBTRACT):
        assert code_of_form(("segment.ms", needy, None)) == ErrorCode.INVALID_REQUEST
    twice = ("segment.ms", SET, "1"), ("segment.ms", DELETE, None)
    assert code_of_form(*twice) == ErrorCode.INVALID_REQUEST
    for unknown in (-1, 4, 127):
        assert code_of_form(("segment.ms", unknown, "1")) == ErrorCode.INVALID_REQUEST
    check_form([ConfigChange("segment.ms", DELETE, None), ConfigChange("segment.bytes", SET, "")])


NAMES = st.sampled_from(["cleanup.policy", "segment.ms", "absent", "retention.ms"])
CHANGES = st.lists(
    st.builds(ConfigChange, NAMES, st.sampled_from([SET, DELETE]), st.sampled_from(["", "1"]))
    | st.builds(
        ConfigChange,
        st.just("cleanup.policy"),
        st.sampled_from([APPEND, SUBTRACT]),
        st.sampled_from(["", "a,b"]),
    ),
    unique_by=lambda change: change.name,
)


@pytest.mark.slow
@settings(max_examples=40)
@given(st.dictionaries(NAMES, st.sampled_from(["1", "a", "a,b,c"])), CHANGES)
def test_a_change_leaves_what_it_does_not_name(
    current: dict[str, str], changes: list[ConfigChange]
) -> None:
    check_form(changes)
    then = changed(current, changes, TOPIC_SETTINGS)
    named = {change.name for change in changes}
    assert {k: v for k, v in then.items() if k not in named} == {
        k: v for k, v in current.items() if k not in named
    }
    assert set(then) >= {change.name for change in changes if change.operation == SET}


# Topics.


def topic_code(
    wanted: dict[str, str], current: dict[str, str] | None = None, **given: str
) -> ErrorCode | None:
    config = Config({key.replace("_", "."): value for key, value in given.items()})
    try:
        config.check_topic_change(current or {}, wanted)
    except Refused as refused:
        assert refused.code == ErrorCode.INVALID_CONFIG
        return refused.code
    return None


@pytest.mark.parametrize(
    "wanted",
    [
        {"segment.ms": "77"},
        {"max.message.bytes": " 77 "},
        {"message.timestamp.type": "LogAppendTime"},
        {"retention.ms": "1000", "retention.bytes": "-1"},
        {"cleanup.policy": "compact,delete"},
        {"preallocate": "false"},  # the default
        {"compression.type": "gzip", "compression.gzip.level": "9"},
        {"remote.storage.enable": "false"},
    ],
)
def test_what_a_topic_takes(wanted: dict[str, str]) -> None:
    assert topic_code(wanted) is None


@pytest.mark.parametrize(
    "wanted",
    [
        {"nope": "1"},
        {"": "1"},
        {"segment.ms": "x"},
        {"segment.ms": "0"},
        {"preallocate": "true"},  # without an effect so far
        {"retention.ms": "-2"},
        {"cleanup.policy": "foo"},
        {"compression.type": "none"},
        {"compression.gzip.level": "0"},
        {"compression.lz4.level": "18"},
        {"remote.storage.enable": "true"},
        {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
    ],
)
def test_what_a_topic_does_not_take(wanted: dict[str, str]) -> None:
    assert topic_code(wanted) == ErrorCode.INVALID_CONFIG


def test_what_a_topic_has_stored_hinders_no_change() -> None:
    stored = {
        "preallocate": "true",
        "nope": "from another broker",
    }
    assert topic_code({**stored, "segment.ms": "77"}, stored) is None
    assert topic_code({"preallocate": "true"}, stored) is None
    assert topic_code({**stored, "preallocate": " TRUE"}, stored) is None  # the same


def test_the_broker_s_value_is_a_topic_s_default() -> None:
    reserve = "preallocate"
    assert topic_code({reserve: "true"}) == ErrorCode.INVALID_CONFIG  # not built
    assert topic_code({reserve: "true"}, log_preallocate="true") is None
    assert topic_code({reserve: "false"}, log_preallocate="true") is None


# Brokers.


def broker_code(
    wanted: dict[str, str], current: dict[str, str] | None = None, *, is_cluster: bool = False
) -> ErrorCode | None:
    try:
        Config().check_broker_change(current or {}, wanted, is_cluster=is_cluster)
    except Refused as refused:
        return refused.code
    return None


@pytest.mark.parametrize("is_cluster", [False, True])
@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("message.max.bytes", "2000", None),
        ("log.roll.ms", "2000", None),
        ("max.connections.per.ip.overrides", "10.0.0.1:7", None),
        ("log.retention.ms", "5", None),
        ("log.cleanup.policy", "compact", None),
        ("log.preallocate", "true", ErrorCode.INVALID_CONFIG),
        ("num.io.threads", "8", None),  # the default
        ("num.io.threads", "9", ErrorCode.INVALID_CONFIG),
        ("compression.type", "gzip", None),
        ("compression.type", "none", ErrorCode.INVALID_REQUEST),
        ("compression.gzip.level", "0", ErrorCode.INVALID_REQUEST),
        ("my.own", "5", ErrorCode.INVALID_CONFIG),
        ("listener.name.plaintext.max.connections", "5", ErrorCode.INVALID_REQUEST),
        ("num.partitions", "1", ErrorCode.INVALID_REQUEST),
        ("log.roll.hours", "5", ErrorCode.INVALID_REQUEST),
        ("group.max.size", "5", ErrorCode.INVALID_REQUEST),
        ("log.segment.bytes", "x", ErrorCode.INVALID_REQUEST),
        ("log.segment.bytes", "1", ErrorCode.INVALID_REQUEST),
        ("min.insync.replicas", "0", ErrorCode.INVALID_REQUEST),
        ("max.connections.per.ip", "0", ErrorCode.INVALID_REQUEST),
        ("max.connections.per.ip.overrides", "127.0.0.1:x", ErrorCode.INVALID_REQUEST),
        ("ssl.keystore.location", "/x", ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_a_broker_takes(
    name: str, text: str, code: ErrorCode | None, is_cluster: bool
) -> None:
    assert broker_code({name: text}, is_cluster=is_cluster) == code


@pytest.mark.parametrize(
    ("name", "now", "refused", "taken"),
    [
        ("log.cleaner.threads", "1", "0 3 -1", "1 2"),
        ("log.cleaner.threads", "5", "0 1 11", "2 5 10"),
        ("num.recovery.threads.per.data.dir", "4", "0 1 9", "2 4 8"),
        ("log.cleaner.dedupe.buffer.size", "134217728", "1048576 0 -1", "1048577"),
    ],
)
@pytest.mark.parametrize("is_cluster", [False, True])
def test_threads_halve_or_double_at_most(
    name: str, now: str, refused: str, taken: str, is_cluster: bool
) -> None:
    config = Config({name: now})
    for text in taken.split():
        config.check_broker_change({}, {name: text}, is_cluster=is_cluster)
    for text in refused.split():
        with pytest.raises(Refused) as error:
            config.check_broker_change({}, {name: text}, is_cluster=is_cluster)
        assert error.value.code == ErrorCode.INVALID_REQUEST


def test_a_setting_that_goes_is_a_change_of_threads_too() -> None:
    config = Config()
    config.change(own={"log.cleaner.threads": "2"})
    config.change(own={"log.cleaner.threads": "4"})
    with pytest.raises(Refused) as refused:
        config.check_broker_change({"log.cleaner.threads": "4"}, {}, is_cluster=False)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_each_cleaner_has_more_than_a_mebibyte() -> None:
    with pytest.raises(ConfigError, match="more than 1 MiB"):
        Config({"log.cleaner.threads": "4", "log.cleaner.dedupe.buffer.size": str(4 << 20)})
    with pytest.raises(ConfigError, match="at least 1"):
        Config({"log.cleaner.threads": "0"})
    config = Config({"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": str(3 << 20)})
    with pytest.raises(Refused):  # 3 MiB are too few for 4
        config.check_broker_change({}, {"log.cleaner.threads": "4"}, is_cluster=False)


def test_listeners_change_with_a_restart_only() -> None:
    listeners = {"listeners": "PLAINTEXT://:0"}
    assert broker_code(listeners) == ErrorCode.INVALID_CONFIG
    assert broker_code(listeners, is_cluster=True) == ErrorCode.INVALID_REQUEST
    assert broker_code({"listeners": Config().listeners}) is None


def test_what_is_stored_hinders_no_change_of_a_broker() -> None:
    stored = {"my.own": "5", "num.partitions": "9"}
    assert broker_code({**stored, "log.roll.ms": "5"}, stored) is None


def test_no_secret_is_shown() -> None:
    with pytest.raises(Refused) as refused:
        Config().check_broker_change({}, {"sasl.jaas.config": "hunter2"}, is_cluster=False)
    assert "hunter2" not in str(refused.value.message)


def test_the_lists_of_special_names() -> None:
    declared = all_declared(BUILT)
    assert PER_LISTENER < PER_BROKER < set(declared)
    assert {"listeners", "sasl.jaas.config", "ssl.client.auth"} < PER_BROKER
    assert len(PER_BROKER) == 37


# Groups.


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({}, None),
        ({"consumer.session.timeout.ms": "50000"}, None),
        ({"consumer.heartbeat.interval.ms": "15000"}, None),
        ({"consumer.session.timeout.ms": "44999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.session.timeout.ms": "60001"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "4999"}, ErrorCode.INVALID_CONFIG),
        ({"consumer.heartbeat.interval.ms": "x"}, ErrorCode.INVALID_CONFIG),
        ({"share.session.timeout.ms": "50000"}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_a_group_takes(wanted: dict[str, str], code: ErrorCode | None) -> None:
    try:
        Config().check_group_change(wanted)
    except Refused as refused:
        assert refused.code == code
    else:
        assert code is None


def test_a_heartbeat_must_come_within_the_session() -> None:
    config = Config({"group.consumer.max.heartbeat.interval.ms": "60000"})
    with pytest.raises(Refused, match="within the session"):
        config.check_group_change({"consumer.heartbeat.interval.ms": "45000"})
