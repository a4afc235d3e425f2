"""The configuration of a broker: its sources, its checked values, and changes at run time.

The sources, in ascending priority: the defaults, a properties file, environment variables, and the
command line.

The environment variable ODRADEK_LOG_SEGMENT_BYTES stands for log.segment.bytes: in capitals, with
'_' for '.'.  As that can't be reversed, the declared names are converted to this form and compared.
ODRADEK_FLUSH_BYTES is odradek.flush.bytes: the prefix is not doubled.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from .net.endpoints import (
    PRIVATE,
    BrokerListeners,
    Endpoint,
    check_listeners,
    choose_broker_listeners,
    parse_also_accepting,
    parse_connection_limits,
    parse_endpoints,
    parse_protocol_map,
)
from .settings import changes
from .settings.admin import check_admin_settings
from .settings.authorization import check_authorization_settings
from .settings.built import GROUPS, BrokerSettings
from .settings.connections import limit_name, limit_setting
from .settings.declaration import INT32_MAX, ConfigError, Setting, Value, declared_in
from .settings.described import (
    Described,
    Layers,
    all_declared,
    describe_broker,
    describe_cluster,
    describe_group,
    describe_topic,
)
from .settings.groups import check_group_settings
from .settings.interbroker import BETWEEN_BROKERS, DEFAULTS_WITH_ZOOKEEPER, check_broker_id
from .settings.of_listener import of_listener
from .settings.password_encoder import PasswordEncoder
from .settings.passwords import Passwords
from .settings.properties import parse_properties
from .settings.releases import check_compatibility
from .settings.replication import check_replication_settings
from .settings.sasl import ListenerSasl, sasl_listener_setting
from .settings.tls import MAPPING_RULES, ListenerTls, listener_setting
from .settings.topic_config import (
    RETENTION_MS,
    TOPIC_SETTINGS,
    TopicConfig,
    broker_value,
    check_overrides,
    read_overrides,
)
from .settings.upkeep_checks import check_thread_change, check_upkeep_settings
from .settings.zookeeper import check_zookeeper_settings

if TYPE_CHECKING:
    from .core.groups.settings import GroupSettings

__all__ = ["Config", "ConfigError", "Described", "Given", "load_config"]

logger = logging.getLogger(__name__)

BUILT: Final[dict[str, Setting[Value]]] = {
    name: setting for group in GROUPS for name, setting in declared_in(group).items()
}

_ENVIRONMENT_PREFIX: Final = "ODRADEK_"
_NOT_SETTINGS: Final = frozenset(  # variables of Odradek that are not settings of the broker
    {
        "ODRADEK_ADMIN_URL",
        "ODRADEK_BOOTSTRAP_SERVERS",
        "ODRADEK_CLIENT_FILES",
        "ODRADEK_CONFIG",
        "ODRADEK_CONTEXT",
        "ODRADEK_HEALTH_CONFIG",
        "ODRADEK_REQUIRE",
        "ODRADEK_SEED",
        "ODRADEK_SIM_SEED",
        "ODRADEK_ZOOKEEPER_JARS",
    }
)


class Given(NamedTuple):
    """The text that a user gave for a setting, and its source, for error messages."""

    text: str
    origin: str = ""


class Config(BrokerSettings):
    """The checked settings of one broker, as attributes: `config.num_partitions`.

    Some may change while the broker runs: users of a setting read it here each time, or register
    for changes (`DynamicConfigs.on_broker_changed`).

    Raises: ConfigError if a setting is invalid, or some settings are invalid together.
    """

    listener_endpoints: tuple[Endpoint, ...]
    """The addresses to listen on."""
    advertised_endpoints: tuple[Endpoint, ...]
    """The addresses that clients connect to.  Port 0 stands for the bound port of the listener with
    this name, an empty host for this machine's name."""
    security_protocols: dict[str, str]
    """By listener name."""
    broker_listeners: BrokerListeners
    private_endpoints: tuple[Endpoint, ...] = ()  # also to listen on, but not shown to clients
    _private_password: str = ""
    layers: Layers
    """The settings that are set, by where they are set."""
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
        warnings += self._open_listeners()
        self.warnings = tuple(warnings)

    def _open_listeners(self) -> list[str]:
        """A warning for the listeners on which a stranger could do everything."""
        if self.authorizer_class_name and not self.allow_everyone_if_no_acl_found:
            return []
        found = [
            str(end)
            for end in self.listener_endpoints
            if not end.is_loopback and self._lets_in_everyone(end.name)
        ]
        if not found:
            return []
        where = " or ".join(found)
        if self.authorizer_class_name:
            return [
                f"everyone who reaches {where} can do everything with what no ACL is about, and "
                "add and remove ACLs if none is about the cluster: see "
                "allow.everyone.if.no.acl.found"
            ]
        return [
            f"everyone who reaches {where} can read, write and delete: set a listener "
            "with SASL, ssl.client.auth=required or authorizer.class.name, or listen on 127.0.0.1"
        ]

    def _lets_in_everyone(self, listener_name: str) -> bool:
        tls = self.listener_tls(listener_name)
        has_certificates = tls is not None and tls["ssl.client.auth"] == "required"
        return not self.has_sasl(listener_name) and not has_certificates

    def _settings_of_no_listener(self, static: Mapping[str, Value]) -> list[str]:
        """A warning for each setting of a listener that does not exist, or has no TLS or SASL."""
        return [
            f"setting {name} has no effect: {reason}"
            for name, reason in self._of_no_listener(static)
        ]

    def _of_no_listener(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """The settings among `names` of a listener that cannot use them, and why."""
        served = {end.name for end in self.listener_endpoints}
        protocols = {self.security_protocols[listener_name] for listener_name in served}
        found = []
        for name in names:
            limit = limit_setting(name)
            if limit is not None and limit[0] not in served:
                found.append((name, f"{limit[0]} is not a listener"))
            if name == MAPPING_RULES and "SASL_SSL" in protocols and "SSL" not in protocols:
                found.append((name, "clients of listeners with SASL are named by their logins"))
            tls, sasl = listener_setting(name), sasl_listener_setting(name)
            of_one = tls or sasl
            if of_one is None:
                continue
            listener_name, of = of_one[0], "SSL" if tls else "SASL"
            if listener_name not in served or of not in self.security_protocols[listener_name]:
                found.append((name, f"{listener_name} is not a listener with {of}"))
            elif tls and tls[1].name == MAPPING_RULES and self.has_sasl(listener_name):
                found.append((name, f"clients of {listener_name} are named by their logins"))
            elif sasl and sasl[1] and sasl[1] not in self._mechanisms(listener_name):
                found.append((name, f"{listener_name} does not offer {sasl[1]}"))
        return found

    def _mechanisms(self, listener_name: str) -> tuple[str, ...]:
        given = self.listener_sasl(listener_name)
        return () if given is None else given["sasl.enabled.mechanisms"]

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
            unbuilt_warning,
            unknown_warning,
        )

        setting = UNBUILT.get(name)
        if setting is None:
            warnings.append(unknown_warning(name, BUILT))
            return
        value = static[name] = setting.parse(text, origin)
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
        self.security_protocols = parse_protocol_map(
            "listener.security.protocol.map", self.listener_security_protocol_map
        )
        check_listeners(self.listener_endpoints, self.advertised_endpoints, self.security_protocols)
        security_protocol = self.security_inter_broker_protocol
        self.broker_listeners = choose_broker_listeners(
            inter_broker=self.inter_broker_listener_name,
            security_protocol=security_protocol
            if "security.inter.broker.protocol" in self._given
            else None,
            control_plane=self.control_plane_listener_name,
            advertised=self.advertised_endpoints,
            protocols=self.security_protocols,
            is_alone=self.zookeeper_connect is None,
        )
        self.broker_listeners = self.broker_listeners._replace(
            also_accepting=parse_also_accepting(
                "odradek.broker.listeners.accepted",
                self.odradek_broker_listeners_accepted,
                self.listener_endpoints,
            )
        )
        if self.private_endpoints:
            self.broker_listeners = BrokerListeners(PRIVATE.name, None)
            if self._is_guarded:
                self.security_protocols = {
                    **self.security_protocols,
                    PRIVATE.name: "SASL_PLAINTEXT",
                }
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

    def limit_of_listener(self, listener_name: str, name: str) -> int:
        """The limit of connections of one listener, by the name of the broker's limit."""
        limit = self._given.get(limit_name(listener_name, name), INT32_MAX)
        assert isinstance(limit, int)
        return limit

    @property
    def broker_only_listeners(self) -> frozenset[str]:
        """Listeners for brokers, separate from those for clients."""
        count = len(self.listener_endpoints) + len(self.private_endpoints)
        return self.broker_listeners.names if count > 1 else frozenset()

    def share_process(self, password: str) -> None:
        """Use a private listener between brokers, as several brokers share this process.

        `password`, which only they know, guards it if the listeners for clients are guarded.
        """
        self.private_endpoints = (PRIVATE,)
        self._private_password = password
        self._check()

    @property
    def _is_guarded(self) -> bool:
        """Whether clients need more than a connection to do everything."""
        protocols = {self.security_protocols[end.name] for end in self.listener_endpoints}
        return protocols != {"PLAINTEXT"} or bool(self.authorizer_class_name)

    def listener_tls(self, listener_name: str) -> ListenerTls | None:
        """The settings of TLS of a listener; None if it does not use TLS."""
        protocol = self.security_protocols.get(listener_name, "")
        if not protocol.endswith("SSL"):
            return None
        has_sasl = self.has_sasl(listener_name)
        return ListenerTls(listener_name, self._given, has_sasl=has_sasl)

    def has_sasl(self, listener_name: str) -> bool:
        """Whether clients of a listener must log in."""
        return self.security_protocols.get(listener_name, "").startswith("SASL_")

    def listener_sasl(self, listener_name: str) -> ListenerSasl | None:
        """The settings of SASL of a listener; None if it does not use SASL.

        They are those of the start: no admin client decides who may log in.
        """
        if not self.has_sasl(listener_name):
            return None
        if listener_name == PRIVATE.name:
            from .settings.private import private_login

            return private_login(listener_name, self._private_password)
        return ListenerSasl(listener_name, self.layers.static)

    def _all_data_dirs(self) -> tuple[str, ...]:
        name = "log.dir" if self.log_dirs is None else "log.dirs"
        text = self.log_dir if self.log_dirs is None else self.log_dirs
        paths = tuple(path.strip() for path in text.split(","))
        if not all(paths):
            raise ConfigError(f"{name}={text} names no directory: it must be a list of paths")
        return paths

    def __getitem__(self, name: str) -> Any:
        """The value of a built setting by Kafka's name; prefer the attributes, which are typed."""
        return self.__dict__[BUILT[name].attribute]

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

    # Changes while the broker runs.

    def check_topic_change(self, current: Mapping[str, str], wanted: Mapping[str, str]) -> None:
        """Check a change of a topic's settings.  Raises: Refused with INVALID_CONFIG."""
        changes.check_topic(current, wanted, self._given)

    def check_broker_change(
        self, current: Mapping[str, str], wanted: Mapping[str, str], *, is_cluster: bool
    ) -> "Config":
        """Check a change of the settings of this broker, or (`is_cluster`) of all brokers.

        Return the configuration that the broker would have.  The passwords are not encrypted.

        Raises: Refused (INVALID_REQUEST, INVALID_CONFIG).
        """
        for name, reason in self._of_no_listener(wanted.keys() - current.keys()):
            raise Refused(ErrorCode.INVALID_REQUEST, f"{name} has no effect: {reason}")
        declared = all_declared(BUILT)
        changes.check_broker(current, wanted, declared, self.layers, is_cluster=is_cluster)
        try:
            together = self._changed(**{"cluster" if is_cluster else "own": wanted})
            check_thread_change(self, together)
            return together
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_REQUEST, str(error)) from None

    def check_group_change(self, wanted: Mapping[str, str]) -> None:
        """Check a change of a group's settings.  Raises: Refused with INVALID_CONFIG."""
        from .groups.settings import check_group_configs

        try:
            check_group_configs(wanted, self)
        except ConfigError as error:
            raise Refused(ErrorCode.INVALID_CONFIG, str(error)) from None

    def change(self, **layer: Mapping[str, str]) -> None:
        """Replace the settings of this broker (`own`) or of all brokers (`cluster`), as stored.

        Nothing changes if the settings are invalid together.  Raises: ConfigError.
        """
        read = {where: self.passwords.readable(texts) for where, texts in layer.items()}
        self._use(self._changed(**read).layers)

    @property
    def passwords(self) -> Passwords:
        """The passwords among stored settings of brokers."""
        new, old = self.password_encoder_secret, self.password_encoder_old_secret
        encoders = (
            PasswordEncoder(
                secret,
                self.password_encoder_cipher_algorithm,
                self.password_encoder_keyfactory_algorithm,
                self.password_encoder_key_length,
                self.password_encoder_iterations,
            )
            if secret
            else None
            for secret in (new, old)
        )
        return Passwords(all_declared(BUILT), *encoders)

    def _changed(self, **layer: Mapping[str, str]) -> "Config":
        layers = self.layers._replace(
            **{where: _readable(texts, where) for where, texts in layer.items()}
        )
        config = copy(self)
        config._use(layers)
        return config

    def describe_broker(self, names: Collection[str] | None = None) -> list[Described]:
        """DescribeConfigs of this broker; no `names`: all settings, as in Kafka."""
        return describe_broker(BUILT, self.layers, names)

    def describe_cluster(self, names: Collection[str] | None = None) -> list[Described]:
        """DescribeConfigs of the settings for all brokers."""
        return describe_cluster(BUILT, self.layers, names)

    def describe_group(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[Described]:
        """DescribeConfigs of a consumer group that has set `overrides`."""
        return describe_group(overrides, BUILT, self.layers, names)

    def describe_topic(
        self, overrides: Mapping[str, str], names: Collection[str] | None = None
    ) -> list[Described]:
        """DescribeConfigs of a topic that has set `overrides`; no `names`: all settings."""
        return describe_topic(overrides, BUILT, self.layers, names)


def _readable(texts: Mapping[str, str], where: str) -> dict[str, Value]:
    """The valid settings of a layer in the store; other brokers may have written invalid ones."""
    declared, values = all_declared(BUILT), {}
    for name, text in texts.items():
        setting = declared.get(name)
        if setting is None and where == "own" and listener_setting(name) is not None:
            setting = of_listener(name)
        if setting is None:
            logger.warning(
                "broker config ignored: there is no config named %.100r layer=%s", name, where
            )
            continue
        try:
            values[name] = setting.parse(text)
        except ConfigError as error:
            logger.warning("broker config ignored: %s layer=%s", error, where)
    return values


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
    """The setting that a variable stands for; if none is known, the name it seems to mean."""
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
    """A setting's name as an environment variable, without the prefix."""
    return name.upper().replace(".", "_")
