"""From the broker's settings to what the group coordinator asks for."""

from typing import TYPE_CHECKING, Final, NamedTuple

from .core.groups.settings import ClassicSettings, ConsumerSettings, GroupSettings, OffsetSettings
from .settings.groups import ASSIGNORS

if TYPE_CHECKING:
    from .config import Config

_MINUTE_MS: Final = 60_000


def group_settings(config: "Config") -> GroupSettings:
    """The settings of the group machines."""
    return GroupSettings(
        classic=ClassicSettings(
            initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
            session_timeout_ms_min=config.group_min_session_timeout_ms,
            session_timeout_ms_max=config.group_max_session_timeout_ms,
            group_size_max=config.group_max_size,
        ),
        offsets=OffsetSettings(
            metadata_size_max=config.offset_metadata_max_bytes,
            retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        ),
        consumer=ConsumerSettings(
            session_timeout_ms=config.group_consumer_session_timeout_ms,
            heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
            group_size_max=config.group_consumer_max_size,
            assignors=tuple(ASSIGNORS[name] for name in config.group_consumer_assignors),
            migration_policy=config.group_consumer_migration_policy,
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        ),
    )


class GroupConfigSetting(NamedTuple):
    """What one group may set for itself, and between which bounds, both inclusive."""

    name: str
    synonym: str
    """The broker's setting, which counts where the group has set nothing."""
    at_least: int
    at_most: int


def group_config_settings(config: "Config") -> dict[str, GroupConfigSetting]:
    """The settings of a GROUP resource, by name."""
    settings = (
        GroupConfigSetting(
            "consumer.heartbeat.interval.ms",
            "group.consumer.heartbeat.interval.ms",
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        GroupConfigSetting(
            "consumer.session.timeout.ms",
            "group.consumer.session.timeout.ms",
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
    )
    return {setting.name: setting for setting in settings}
