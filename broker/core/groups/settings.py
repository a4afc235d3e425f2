"""The settings that the group machines ask for, in one place that a change can replace."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicSettings:
    """Kafka's group.* settings for classic groups."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = 2_147_483_647

    def allows_session(self, timeout_ms: int) -> bool:
        """Whether a member may have such a session timeout."""
        return self.session_timeout_ms_min <= timeout_ms <= self.session_timeout_ms_max


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetSettings:
    """Kafka's offset.* and offsets.* settings."""

    metadata_size_max: int = 4_096
    """Characters, as Kafka counts: UTF-16 units."""
    retention_ms: int = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSettings:
    """Kafka's group.consumer.* settings; those of one group may be overridden by its own config."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    group_size_max: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used where no member asks for one."""
    migration_policy: str = "bidirectional"
    """disabled, upgrade, downgrade or bidirectional."""
    regex_refresh_interval_ms: int = 600_000
    assignment_interval_ms: int = 1_000
    """At least this long between two target assignments of a group (KIP-1263)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """All of them; replaced as a whole when one changes."""

    classic: ClassicSettings = ClassicSettings()
    offsets: OffsetSettings = OffsetSettings()
    consumer: ConsumerSettings = ConsumerSettings()
