"""The configuration of a broker: its checked values, and what only the start decides.

Its listeners are in `listener_config.py`; what admin clients change, in `changing_config.py`.
"""

import logging
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from .changing_config import ChangingConfig
from .net.endpoints import PRIVATE, parse_connection_limits
from .settings.admin import check_admin_settings
from .settings.authorization import check_authorization_settings
from .settings.built import BUILT
from .settings.declaration import ConfigError, Value
from .settings.described import Described, Layers
from .settings.groups import check_group_settings
from .settings.interbroker import BETWEEN_BROKERS, DEFAULTS_WITH_ZOOKEEPER, check_broker_id
from .settings.of_listener import of_listener
from .settings.releases import check_compatibility
from .settings.replication import check_replication_settings
from .settings.sources import Given, given_settings
from .settings.topic_config import (
    RETENTION_MS,
    TOPIC_SETTINGS,
    TopicConfig,
    broker_value,
    check_overrides,
    read_overrides,
)
from .settings.upkeep_checks import check_upkeep_settings
from .settings.zookeeper import check_zookeeper_settings

if TYPE_CHECKING:
    from .core.groups.settings import GroupSettings

__all__ = ["BUILT", "Config", "ConfigError", "Described", "Given", "load_config"]

logger = logging.getLogger(__name__)


class Config(ChangingConfig):
    """The checked settings of one broker, as attributes: `config.num_partitions`.

    Some may change while the broker runs: users of a setting read it here each time, or register
    for changes (`DynamicConfigs.on_broker_changed`).

    Raises: ConfigError if a setting is invalid, or some settings are invalid together.
    """

    data_dir: str
    data_dirs: tuple[str, ...]
    connection_limits: dict[str, int]
    """max.connections.per.ip.overrides: client address -> connections."""
    warnings: tuple[str, ...]
    """Warnings for the user, one line each."""

    def __init__(self, given: Mapping[str, Given | str] | None = None) -> None:
        """`given`: the settings that the user has set, by name."""
        warnings: list[str] = []
        static: dict[str, Value] = {}
        for name, entry in (given or {}).items():
            text, origin = entry if isinstance(entry, Given) else Given(entry)
            self._take(name, text, origin, static, warnings)
        if static.get("zookeeper.connect"):
            static = DEFAULTS_WITH_ZOOKEEPER | static
        self._use(Layers({}, {}, static))
        warnings += self._settings_of_no_listener(static)
        warnings += self._listeners_without_certificates()
        warnings += self._open_listeners()
        self.warnings = tuple(warnings)

    def _use(self, layers: Layers) -> None:
        """Raises: ConfigError."""
        self.layers = layers
        self._given = layers.merged()
        for name, setting in BUILT.items():
            self.__dict__[setting.attribute] = self._given.get(name, setting.default)
        self._check()
        self._plain_topic_config: TopicConfig | None = None

    def move_to_rack(self, rack: str | None) -> None:
        """Change broker.rack, which Kafka reads only at the start."""
        static = dict(self.layers.static)
        static.pop("broker.rack", None)
        if rack is not None:
            static["broker.rack"] = rack
        self._use(self.layers._replace(static=static))

    def _take(
        self, name: str, text: str, origin: str, static: dict[str, Value], warnings: list[str]
    ) -> None:
        setting = BUILT.get(name)
        if setting is not None:
            static[name] = setting.parse(text, origin)
            return
        setting = of_listener(name)
        if setting is not None:
            static[name] = setting.parse(text, origin)
            return
        from .settings.known import (  # many settings, rarely needed
            UNBUILT,
            refused_of_listener,
            unbuilt_warning,
            unknown_warning,
        )

        setting = UNBUILT.get(name) or refused_of_listener(name)
        if setting is None:
            warnings.append(unknown_warning(name, BUILT))
            return
        value = setting.parse(text, origin)
        if setting.name == name:
            static[name] = value
        if value == setting.default:
            return
        if setting.refused_because:
            raise ConfigError(
                f"{name}={text} is not built yet, and without it {setting.refused_because}"
            )
        warnings.append(unbuilt_warning(setting, text))

    def _check(self) -> None:
        self._use_listeners()
        check_broker_id(self)
        self.data_dirs = self._all_data_dirs()
        self.data_dir = self.data_dirs[0]
        self.connection_limits = parse_connection_limits(
            "max.connections.per.ip.overrides", self.max_connections_per_ip_overrides
        )
        if self.max_connections_per_ip == 0 and not self.connection_limits:
            raise ConfigError(
                "max.connections.per.ip=0 lets nobody in: set max.connections.per.ip.overrides too"
            )
        if 0 < self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise ConfigError(
                f"queued.max.request.bytes={self.queued_max_request_bytes} must not be below "
                f"socket.request.max.bytes={self.socket_request_max_bytes}, or the largest request "
                "could never be received"
            )
        if 0 <= self.connections_max_idle_ms <= self.connection_failed_authentication_delay_ms:
            raise ConfigError(
                "connection.failed.authentication.delay.ms="
                f"{self.connection_failed_authentication_delay_ms} must be below "
                f"connections.max.idle.ms={self.connections_max_idle_ms}, or a refused client "
                "would not get its answer"
            )
        if broker_value(TOPIC_SETTINGS[RETENTION_MS], self._given) == 0:
            raise ConfigError(
                "log.retention.ms, or what takes its place, must be -1 for never, or at least 1"
            )
        check_group_settings(self)
        check_upkeep_settings(self)
        check_replication_settings(self)
        check_zookeeper_settings(self)
        check_authorization_settings(self)
        check_admin_settings(self)
        check_compatibility(self, has_listener_for_brokers=bool(self.broker_only_listeners))

    def share_process(self, password: str) -> None:
        """Use a private listener between brokers, as several brokers share this process.

        `password`, which only they know, guards it.
        """
        self.private_endpoints = (PRIVATE,)
        self._private_password = password
        self._check()

    def _all_data_dirs(self) -> tuple[str, ...]:
        name = "log.dir" if self.log_dirs is None else "log.dirs"
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        paths = tuple(path.strip() for path in text.split(","))
        if not all(paths):
            raise ConfigError(f"{name}={text} names no directory: it must be a list of paths")
        return paths

    @cached_property
    def group_settings(self) -> "GroupSettings":
        """The settings of the group machines."""
        from .groups.settings import group_settings  # not needed to start

        return group_settings(self)

    def log_warnings(self, *, shares_process: bool = False) -> None:
        """Log the warnings about settings that are unknown or have no effect, one line each.

        `shares_process`: several brokers run in this process.
        """
        for line in self.warnings:
            logger.warning("%s", line)
        for name in BETWEEN_BROKERS if shares_process else ():
            if name in self.layers.static:
                logger.warning(
                    "setting %s has no effect: the brokers of one process have a private listener",
                    name,
                )

    def topic_config(self, overrides: Mapping[str, str] | None = None) -> TopicConfig:
        """The settings of a topic that has set `overrides`.

        Invalid ones (another broker may have stored them) are logged and ignored. Settings that
        a client sends must pass `check_topic_config` before they are stored.
        """
        if not overrides and self._plain_topic_config is not None:
            return self._plain_topic_config
        values, unusable = read_overrides(overrides or {}, self._given)
        for line in unusable:
            logger.warning("topic config ignored: %s", line)
        topic_config = TopicConfig(
            values,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            decompressed_batch_bytes_max=self.odradek_decompressed_batch_bytes_max,
        )
        if not overrides:
            self._plain_topic_config = topic_config
        return topic_config

    def check_topic_config(self, overrides: Mapping[str, str | None]) -> list[str]:
        """Check the settings that a client sends; return those that have no effect yet.

        The caller logs these when it stores them, in the form `"cleanup.policy=compact"`.

        Raises: Refused with INVALID_CONFIG.
        """
        return check_overrides(overrides, self._given)


def load_config(
    *,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """Load a configuration from all sources.

    `file`: path of a properties file.  `environ`: os.environ; only the ODRADEK_ variables are used.
    `overrides`: the settings from the command line, by Kafka's names.

    Raises: ConfigError.
    """
    return Config(given_settings(file=file, environ=environ, overrides=overrides))
