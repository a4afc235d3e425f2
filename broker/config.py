"""The configuration of a broker: where it comes from and what it gives.

Sources, each above the one before: the defaults, a properties file, environment variables, and
what was set on the command line.

An environment variable ODRADEK_LOG_SEGMENT_BYTES stands for log.segment.bytes: capitals, '_' for
'.'.  As '_' could stand for other things too, it is the declared names that are brought into this
form and compared.  ODRADEK_FLUSH_BYTES is odradek.flush.bytes: the prefix is not doubled.
"""

import logging
from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .endpoints import (
    Endpoint,
    check_listeners,
    parse_connection_limits,
    parse_endpoints,
    parse_protocol_map,
)
from .settings.built import GROUPS, BrokerSettings
from .settings.declaration import ConfigError, Setting, Value, declared_in
from .settings.described import Described, describe_broker, describe_topic
from .settings.groups import check_group_settings
from .settings.properties import parse_properties
from .settings.topic_config import TopicConfig, check_overrides, read_overrides

if TYPE_CHECKING:
    from .core.groups.settings import GroupSettings

__all__ = ["Config", "ConfigError", "Described", "Given", "load_config"]

log = logging.getLogger(__name__)

BUILT: Final[dict[str, Setting[Value]]] = {
    name: setting for group in GROUPS for name, setting in declared_in(group).items()
}

_ENVIRONMENT_PREFIX: Final = "ODRADEK_"
_NOT_SETTINGS: Final = frozenset(  # ours, but not the broker's
    {"ODRADEK_REQUIRE", "ODRADEK_SEED", "ODRADEK_SIM_SEED", "ODRADEK_BOOTSTRAP_SERVERS"}
)


class Given(NamedTuple):
    """What a user wrote for a setting, and where, for the error message."""

    text: str
    origin: str = ""


class Config(BrokerSettings):
    """The settings of one broker, checked: `config.num_partitions`.

    Raises: ConfigError when made of something that cannot be used.
    """

    listener_endpoints: tuple[Endpoint, ...]
    """Where to listen."""
    advertised_endpoints: tuple[Endpoint, ...]
    """Where clients shall connect to.  Port 0 stands for the bound port of the listener of this
    name, an empty host for this machine's name."""
    data_dir: str
    connection_limits: dict[str, int]
    """max.connections.per.ip.overrides: client address -> connections."""
    warnings: tuple[str, ...]
    """What a user should hear about, one line each."""

    def __init__(self, given: Mapping[str, Given | str] | None = None) -> None:
        """`given`: what differs from the defaults, by name."""
        warnings: list[str] = []
        self._given: dict[str, Value] = {}
        for name, entry in (given or {}).items():
            text, origin = entry if isinstance(entry, Given) else Given(entry)
            self._take(name, text, origin, warnings)
        for name, setting in BUILT.items():
            self.__dict__[setting.attribute] = self._given.get(name, setting.default)
        self._check()
        self._plain_topic_config: TopicConfig | None = None
        self.warnings = tuple(warnings)

    def _take(self, name: str, text: str, origin: str, warnings: list[str]) -> None:
        setting = BUILT.get(name)
        if setting is not None:
            self._given[name] = setting.parse(text, origin)
            return
        from .settings.known import (  # 270 settings, rarely needed
            UNBUILT,
            unbuilt_warning,
            unknown_warning,
        )

        setting = UNBUILT.get(name)
        if setting is None:
            warnings.append(unknown_warning(name, BUILT))
            return
        value = self._given[name] = setting.parse(text, origin)
        if value == setting.default:
            return
        if setting.refused_because:
            raise ConfigError(
                f"{name}={text} is not built yet, and without it {setting.refused_because}"
            )
        warnings.append(unbuilt_warning(setting, text))

    def _check(self) -> None:
        self.listener_endpoints = parse_endpoints("listeners", self.listeners)
        self.advertised_endpoints = (
            self.listener_endpoints
            if self.advertised_listeners is None
            else parse_endpoints("advertised.listeners", self.advertised_listeners)
        )
        check_listeners(
            self.listener_endpoints,
            self.advertised_endpoints,
            parse_protocol_map(
                "listener.security.protocol.map", self.listener_security_protocol_map
            ),
        )
        self.data_dir = self._one_data_dir()
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

        check_group_settings(self)

    def _one_data_dir(self) -> str:
        name = "log.dir" if self.log_dirs is None else "log.dirs"
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        paths = [path.strip() for path in text.split(",")]
        if len(paths) > 1:
            raise ConfigError(f"{name}={text} is not built yet: only one directory is")
        if not paths[0]:
            raise ConfigError(f"{name} is empty: it must be the path of the data directory")
        return paths[0]

    def __getitem__(self, name: str) -> Any:
        """The value of a built setting by Kafka's name; the attributes are what mypy can follow."""
        return self.__dict__[BUILT[name].attribute]

    @cached_property
    def group_settings(self) -> "GroupSettings":
        """What the group machines ask for."""
        from .group_settings import group_settings  # not needed to start

        return group_settings(self)

    def log_warnings(self) -> None:
        """Say what is unknown or has no effect, a line each."""
        for line in self.warnings:
            log.warning("%s", line)

    def topic_config(self, overrides: Mapping[str, str] | None = None) -> TopicConfig:
        """The settings of a topic that has set `overrides`.

        What cannot be used of them (another broker may have stored it) is logged and left out;
        what a client asks for has to pass `check_topic_config` before it is stored.
        """
        if not overrides and self._plain_topic_config is not None:
            return self._plain_topic_config
        values, unusable = read_overrides(overrides or {}, self._given)
        for line in unusable:
            log.warning("topic config left out: %s", line)
        topic_config = TopicConfig(
            values,
            producer_id_expiration_ms=self.producer_id_expiration_ms,
            decompressed_batch_bytes_max=self.odradek_decompressed_batch_bytes_max,
        )
        if not overrides:
            self._plain_topic_config = topic_config
        return topic_config

    def check_topic_config(self, overrides: Mapping[str, str | None]) -> list[str]:
        """Let settings pass that a client asks for; return those that have no effect yet.

        The caller logs these when it stores them: `"cleanup.policy=compact"`.

        Raises: Refused with INVALID_CONFIG.
        """
        return check_overrides(overrides, self._given)

    def describe_broker(self, names: Collection[str] | None = None) -> list[Described]:
        """DescribeConfigs of this broker, by name; no `names`: all, as in Kafka."""
        return describe_broker(BUILT, self._given, names)

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[Described]:
        """DescribeConfigs of a topic that has set `overrides`, by name; no `names`: all."""
        return describe_topic(overrides, BUILT, self._given, names)


def load_config(
    *,
    file: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Config:
    """Put a configuration together.

    `file`: path of a properties file.  `environ`: os.environ, of which the ODRADEK_ variables are
    looked at.  `overrides`: what was set on the command line, by Kafka's names.

    Raises: ConfigError.
    """
    given: dict[str, Given] = {}
    if file is not None:
        for name, text in parse_properties(_read(file)).items():
            given[name] = Given(text, f"in {file}")
    for variable, text in (environ or {}).items():
        if variable.startswith(_ENVIRONMENT_PREFIX) and variable not in _NOT_SETTINGS:
            given[_setting_of(variable)] = Given(text, f"environment variable {variable}")
    for name, text in (overrides or {}).items():
        given[name] = Given(text)
    return Config(given)


def _read(file: str) -> str:
    try:
        with open(file, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")  # the encoding of Java's properties before Java 9


def _setting_of(variable: str) -> str:
    """The name that a variable stands for; if none is known, what it looks like."""
    wanted = (variable, variable.removeprefix(_ENVIRONMENT_PREFIX))
    for name in BUILT:
        if environment_form(name) in wanted:
            return name
    from .settings.known import UNBUILT

    for name in UNBUILT:
        if environment_form(name) in wanted:
            return name
    return wanted[1].lower().replace("_", ".")


def environment_form(name: str) -> str:
    """A setting's name in the form of an environment variable, without prefix."""
    return name.upper().replace(".", "_")
