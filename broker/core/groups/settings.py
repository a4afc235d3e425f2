"""The settings of the group machines, as one value that is replaced when a setting changes."""

from typing import NamedTuple


class ClassicSettings(NamedTuple):
    """Kafka's group.* settings for classic groups."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = 2_147_483_647

    def allows_session(self, timeout_ms: int) -> bool:
        """Whether a member may have such a session timeout."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max


class OffsetSettings(NamedTuple):
    """Kafka's offset.* and offsets.* settings."""

    metadata_size_max: int = 4_096
    """In characters as Kafka counts them: UTF-16 code units."""
    retention_ms: int = 7 * 24 * 3_600_000


class ConsumerSettings(NamedTuple):
    """Kafka's group.consumer.* settings; a group's own config may override them."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    group_size_max: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used if no member asks for a known one."""
    migration_policy: str = "bidirectional"
    """disabled, upgrade, downgrade or bidirectional."""
    regex_refresh_interval_ms: int = 600_000
    assignment_interval_ms: int = 1_000
    """The minimum time between two target assignments of a group (KIP-1263)."""


class GroupSettings(NamedTuple):
    """All settings; replaced as a whole when one changes."""

    classic: ClassicSettings = ClassicSettings()
    offsets: OffsetSettings = OffsetSettings()
    consumer: ConsumerSettings = ConsumerSettings()
