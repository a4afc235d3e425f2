"""The settings of the group coordinator, from the broker's settings."""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..core.groups.settings import ClassicSettings, ConsumerSettings, GroupSettings, OffsetSettings
from ..settings.declaration import ConfigError
from ..settings.groups import ASSIGNORS, GROUP_CONFIGS

if TYPE_CHECKING:
    from ..settings.built import BrokerSettings

logger = logging.getLogger(__name__)

_MINUTE_MS: Final = 60_000


def group_settings(
    config: "BrokerSettings", overrides: Mapping[str, str] | None = None
) -> GroupSettings:
    """The settings of the group machines; `overrides`: the group's own settings."""
    own = {name: GROUP_CONFIGS[name].parse(text) for name, text in (overrides or {}).items()}
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
            session_timeout_ms=own.get(
                "consumer.session.timeout.ms", config.group_consumer_session_timeout_ms
            ),
            heartbeat_interval_ms=own.get(
                "consumer.heartbeat.interval.ms", config.group_consumer_heartbeat_interval_ms
            ),
            group_size_max=config.group_consumer_max_size,
            assignors=tuple(ASSIGNORS[name] for name in config.group_consumer_assignors),
            migration_policy=config.group_consumer_migration_policy,
            assignment_interval_ms=config.group_consumer_assignment_interval_ms,
            regex_refresh_interval_ms=config.group_consumer_regex_refresh_interval_ms,
        ),
    )


def _bounds(config: "BrokerSettings") -> dict[str, tuple[int, int]]:
    """The smallest and the largest value of each setting that a group may have."""
    return {
        "consumer.heartbeat.interval.ms": (
            config.group_consumer_min_heartbeat_interval_ms,
            config.group_consumer_max_heartbeat_interval_ms,
        ),
        "consumer.session.timeout.ms": (
            config.group_consumer_min_session_timeout_ms,
            config.group_consumer_max_session_timeout_ms,
        ),
    }


def usable_group_configs(configs: Mapping[str, str], config: "BrokerSettings") -> dict[str, str]:
    """The usable part of a group's settings in the store, adjusted to this broker's bounds.

    The bounds may have been different when it was stored.  Source: GroupConfig.evaluate.
    """
    usable = {}
    for name, (lower, upper) in _bounds(config).items():
        if name in configs:
            try:
                value = GROUP_CONFIGS[name].parse(configs[name])
            except ConfigError as error:
                logger.warning("group config ignored: %s", error)
            else:
                usable[name] = str(min(max(value, lower), upper))
    return usable


def check_group_configs(configs: Mapping[str, str], config: "BrokerSettings") -> None:
    """Check the settings that a group has for itself.

    Raises: ConfigError.  Source: GroupConfig.validate of Kafka 4.3.1.
    """
    bounds = _bounds(config)
    values = {name: config[f"group.{name}"] for name in bounds}
    for name, text in configs.items():
        if name not in bounds:
            raise ConfigError(f"there is no group config named {name[:100]!r}")
        value = values[name] = GROUP_CONFIGS[name].parse(text)
        lower, upper = bounds[name]
        if not lower <= value <= upper:
            raise ConfigError(
                f"{name}={value} is not allowed: this broker allows {lower} to {upper}"
            )
    if values["consumer.heartbeat.interval.ms"] >= values["consumer.session.timeout.ms"]:
        settings = ", ".join(f"{name}={value}" for name, value in values.items())
        raise ConfigError(f"a heartbeat must come within the session: {settings}")
