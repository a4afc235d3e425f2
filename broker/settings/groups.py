"""Settings of groups, and of the topic that holds their committed offsets.

The settings of consumer groups with the new protocol (KIP-848) are as in Kafka 4.3.1.
"""

from typing import Any, Final, Protocol

from .declaration import INT, INT32_MAX, LIST, LONG, SHORT, STRING, ConfigError, Kind, Setting

_JAVA_PACKAGE: Final = "org.apache.kafka.coordinator.group.assignor."
ASSIGNORS: Final = {
    "uniform": "uniform",
    "range": "range",
    f"{_JAVA_PACKAGE}UniformAssignor": "uniform",
    f"{_JAVA_PACKAGE}RangeAssignor": "range",
}
"""The texts that are valid for an assignor, and the assignor's name for each."""


def _protocols(text: str) -> str | None:
    names = [name.strip() for name in text.split(",")]
    is_right = "classic" in names and set(names) <= {"classic", "consumer"}
    return None if is_right else "classic, or classic,consumer"


def _assignors(text: str) -> str | None:
    names = [ASSIGNORS.get(name.strip()) for name in text.split(",")]
    is_right = None not in names and len(set(names)) == len(names)
    return None if is_right else "a list of uniform and range, or of their Java classes"


class GroupSettings:
    """Groups of both protocols, and their committed offsets."""

    group_coordinator_rebalance_protocols = Setting(
        "group.coordinator.rebalance.protocols",
        LIST,
        ("classic", "consumer"),
        "The group protocols that are served; `consumer` is the protocol of KIP-848.",
        check=_protocols,
        kafka_default="classic",
    )
    group_initial_rebalance_delay_ms = Setting(
        "group.initial.rebalance.delay.ms",
        INT,
        3_000,
        "How long an empty classic group waits for further members after its first one.",
    )
    group_min_session_timeout_ms = Setting(
        "group.min.session.timeout.ms",
        INT,
        6_000,
        "The shortest session timeout that a member of a classic group may request.",
    )
    group_max_session_timeout_ms = Setting(
        "group.max.session.timeout.ms",
        INT,
        1_800_000,
        "The longest session timeout that a member of a classic group may request.",
    )
    group_max_size = Setting(
        "group.max.size", INT, INT32_MAX, "The most members of a classic group.", at_least=1
    )
    group_consumer_assignors = Setting(
        "group.consumer.assignors",
        LIST,
        ("uniform", "range"),
        "Assignors that the broker offers to consumer groups, the default first: uniform, range, "
        "or the names of their Java classes.",
        check=_assignors,
        kafka_default="the Java classes of both",
    )
    group_consumer_heartbeat_interval_ms = Setting(
        "group.consumer.heartbeat.interval.ms",
        INT,
        5_000,
        "The heartbeat interval of members of consumer groups.",
        at_least=1,
    )
    group_consumer_min_heartbeat_interval_ms = Setting(
        "group.consumer.min.heartbeat.interval.ms",
        INT,
        5_000,
        "The shortest heartbeat interval that a group may set.",
        at_least=1,
    )
    group_consumer_max_heartbeat_interval_ms = Setting(
        "group.consumer.max.heartbeat.interval.ms",
        INT,
        15_000,
        "The longest heartbeat interval that a group may set.",
        at_least=1,
    )
    group_consumer_session_timeout_ms = Setting(
        "group.consumer.session.timeout.ms",
        INT,
        45_000,
        "A member of a consumer group that sends nothing for this long is removed.",
        at_least=1,
    )
    group_consumer_min_session_timeout_ms = Setting(
        "group.consumer.min.session.timeout.ms",
        INT,
        45_000,
        "The shortest session timeout that a group may set.",
        at_least=1,
    )
    group_consumer_max_session_timeout_ms = Setting(
        "group.consumer.max.session.timeout.ms",
        INT,
        60_000,
        "The longest session timeout that a group may set.",
        at_least=1,
    )
    group_consumer_max_size = Setting(
        "group.consumer.max.size",
        INT,
        INT32_MAX,
        "The most members of a consumer group.",
        at_least=1,
    )
    group_consumer_migration_policy = Setting(
        "group.consumer.migration.policy",
        Kind("string", STRING.code, STRING.noun, str.lower),
        "bidirectional",
        "Whether a group may change from the classic protocol to that of KIP-848 while it has "
        "members (upgrade), and back (downgrade). Case does not matter.",
        choices=("disabled", "downgrade", "upgrade", "bidirectional"),
    )
    group_consumer_assignment_interval_ms = Setting(
        "group.consumer.assignment.interval.ms",
        INT,
        1_000,
        "Compute the assignment of a consumer group at most once in this time, however many "
        "members join.",
        at_least=0,
        at_most=15_000,
    )
    group_consumer_regex_refresh_interval_ms = Setting(
        "group.consumer.regex.refresh.interval.ms",
        INT,
        600_000,
        "How often to match subscription patterns again if no topic was created or deleted.",
        at_least=10_000,
    )
    offset_metadata_max_bytes = Setting(
        "offset.metadata.max.bytes",
        INT,
        4096,
        "The largest metadata that may be committed with an offset.",
    )
    offsets_retention_minutes = Setting(
        "offsets.retention.minutes",
        INT,
        10_080,
        "Forget a committed offset this long after its group became empty.",
        at_least=1,
    )
    offsets_retention_check_interval_ms = Setting(
        "offsets.retention.check.interval.ms",
        LONG,
        600_000,
        "How often to look for committed offsets to forget.",
        at_least=1,
    )
    offsets_commit_timeout_ms = Setting(
        "offsets.commit.timeout.ms",
        INT,
        5_000,
        "How long a commit of offsets, or a change of a group, waits for its replicas.",
        at_least=1,
    )
    offsets_load_buffer_size = Setting(
        "offsets.load.buffer.size",
        INT,
        5_242_880,
        "The bytes that are read at a time when groups and offsets are loaded.",
        at_least=1,
    )
    offsets_topic_num_partitions = Setting(
        "offsets.topic.num.partitions",
        INT,
        50,
        "Partitions of `__consumer_offsets` when it is created.",
        at_least=1,
    )
    offsets_topic_replication_factor = Setting(
        "offsets.topic.replication.factor",
        SHORT,
        1,
        "Replicas of `__consumer_offsets` when it is created.",
        at_least=1,
        kafka_default="3",
    )
    offsets_topic_segment_bytes = Setting(
        "offsets.topic.segment.bytes",
        INT,
        104_857_600,
        "Segment size of `__consumer_offsets` when it is created.",
        at_least=14,
    )


GROUP_CONFIGS: Final = {
    setting.name: setting
    for setting in (
        Setting(
            "consumer.heartbeat.interval.ms",
            INT,
            5_000,
            "The heartbeat interval of members of this consumer group.",
            at_least=1,
        ),
        Setting(
            "consumer.session.timeout.ms",
            INT,
            45_000,
            "A member of this consumer group that sends nothing for this long is removed.",
            at_least=1,
        ),
    )
}
"""The settings that a group may override, by name; the broker's has the prefix `group.`."""


class ByName(Protocol):
    """Settings by Kafka's names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a setting."""
        ...


def check_group_settings(values: ByName) -> None:
    """Check the settings of consumer groups.  Raises: ConfigError."""
    ordered = (
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
        ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
        ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
        ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
        ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    )
    for lower, upper in ordered:
        if values[lower] > values[upper]:
            raise ConfigError(f"{lower}={values[lower]} must not be above {upper}={values[upper]}")
    interval_ms = values["group.consumer.heartbeat.interval.ms"]
    timeout_ms = values["group.consumer.session.timeout.ms"]
    if interval_ms >= timeout_ms:
        raise ConfigError(
            f"group.consumer.heartbeat.interval.ms={interval_ms} must be below "
            f"group.consumer.session.timeout.ms={timeout_ms}"
        )
