"""Settings as DescribeConfigs shows them: with value, source and synonyms.

If a topic's retention.ms comes from log.retention.hours, Kafka reports a default without synonyms,
unless log.retention.ms is set.  Odradek reports the actual source.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from .declaration import Setting, Value, text_of
from .groups import GROUP_CONFIGS
from .of_listener import of_listener, without_prefix
from .throttles import RATES
from .topic_config import TOPIC_SETTINGS, read_overrides
from .topic_declaration import TopicSetting

DYNAMIC_TOPIC_CONFIG: Final = 1
DYNAMIC_BROKER_CONFIG: Final = 2
DYNAMIC_DEFAULT_BROKER_CONFIG: Final = 3
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5
DYNAMIC_BROKER_LOGGER_CONFIG: Final = 6
DYNAMIC_GROUP_CONFIG: Final = 8
UNKNOWN_TYPE: Final = 0

Declared = Mapping[str, Setting[Value]]


class Layers(NamedTuple):
    """The settings that are set for a broker, by layer; each layer overrides the following ones."""

    own: Mapping[str, Value]
    """Set for this broker at run time."""
    cluster: Mapping[str, Value]
    """Set for all brokers at run time."""
    static: Mapping[str, Value]
    """Set at the start of the broker."""

    def merged(self) -> dict[str, Value]:
        """The effective values of all settings that are set, by name."""
        return {**self.static, **self.cluster, **self.own}

    def by_source(self) -> tuple[tuple[int, Mapping[str, Value]], ...]:
        """The layers in order, each with Kafka's number of its source."""
        return (
            (DYNAMIC_BROKER_CONFIG, self.own),
            (DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster),
            (STATIC_BROKER_CONFIG, self.static),
        )


class Synonym(NamedTuple):
    """A setting that determines the value if those before it are not set."""

    name: str
    value: str | None
    source: int


class Described(NamedTuple):
    """One setting; `source` and `type_code` are Kafka's numbers."""

    name: str
    value: str | None
    source: int
    synonyms: tuple[Synonym, ...]
    type_code: int
    is_sensitive: bool
    read_only: bool
    documentation: str

    @property
    def is_default(self) -> bool:
        """True unless the setting, or one of its synonyms, is set."""
        return self.source == DEFAULT_CONFIG


def all_declared(built: Declared) -> dict[str, Setting[Value]]:
    """Every setting of a broker, by name, with or without an effect."""
    from .known import UNBUILT  # many settings that a broker does not need to start

    return {**UNBUILT, **built}


def describe_broker(
    built: Declared, layers: Layers, names: Collection[str] | None
) -> list[Described]:
    """All settings of a broker, or those of `names` that exist, ordered by name.

    Throttle rates, and settings of single listeners, are shown only if they are set. As in Kafka,
    the latter are read-only, though some can be changed, and the setting of all is a synonym.
    """
    from .known import DYNAMIC

    declared, given = all_declared(built), layers.merged()
    known = declared.keys() | {name for name in given if of_listener(name) is not None}
    chosen = set(names) & known if names else known
    described = []
    for name in sorted(chosen - (RATES - given.keys())):
        setting = declared.get(name) or of_listener(name)
        assert setting is not None
        described.append(
            _described(
                setting,
                given.get(name, setting.default),
                _synonyms((name, *filter(None, [without_prefix(name)])), declared, layers),
                read_only=name not in DYNAMIC,
            )
        )
    return described


def describe_cluster(
    built: Declared, layers: Layers, names: Collection[str] | None
) -> list[Described]:
    """The settings that are set for all brokers at run time, or those of `names` among them."""
    declared = all_declared(built)
    chosen = set(names) & layers.cluster.keys() if names else layers.cluster.keys()
    described = []
    for name in sorted(chosen):
        setting, value = declared[name], layers.cluster[name]
        synonym = Synonym(name, _shown(setting, value), DYNAMIC_DEFAULT_BROKER_CONFIG)
        is_rate = name in RATES
        described.append(_described(setting, value, (synonym,), read_only=is_rate))
    return described


def describe_topic(
    overrides: Mapping[str, str],
    built: Declared,
    layers: Layers,
    names: Collection[str] | None,
) -> list[Described]:
    """All settings of a topic, or those of `names` that exist, ordered by name."""
    declared = all_declared(built)
    values, _ = read_overrides(overrides, layers.merged())
    chosen = set(names) & TOPIC_SETTINGS.keys() if names else TOPIC_SETTINGS.keys()
    described = []
    for name in sorted(chosen):
        setting: TopicSetting[Value] = TOPIC_SETTINGS[name]
        synonyms = _synonyms([synonym for synonym, _ in setting.synonyms], declared, layers)
        if name in overrides:
            synonyms = (
                Synonym(name, text_of(values[name]), DYNAMIC_TOPIC_CONFIG),
                *synonyms,
            )
        described.append(_described(setting, values[name], synonyms, read_only=False))
    return described


def describe_group(
    overrides: Mapping[str, str],
    built: Declared,
    layers: Layers,
    names: Collection[str] | None,
) -> list[Described]:
    """All settings of a consumer group, or those of `names` that exist, ordered by name."""
    given = layers.merged()
    chosen = set(names) & GROUP_CONFIGS.keys() if names else GROUP_CONFIGS.keys()
    described = []
    for name in sorted(chosen):
        setting, broker_s = GROUP_CONFIGS[name], built[f"group.{name}"]
        value = given.get(broker_s.name, broker_s.default)
        synonyms = _synonyms((broker_s.name,), built, layers)
        if name in overrides:
            value = setting.parse(overrides[name])
            synonyms = (Synonym(name, text_of(value), DYNAMIC_GROUP_CONFIG), *synonyms)
        described.append(_described(setting, value, synonyms, read_only=False))
    return described


def describe_logger(name: str, level: str) -> Described:
    """A logger and its level."""
    return Described(name, level, DYNAMIC_BROKER_LOGGER_CONFIG, (), UNKNOWN_TYPE, False, False, "")


def _synonyms(names: Iterable[str], declared: Declared, layers: Layers) -> tuple[Synonym, ...]:
    names = tuple(names)
    settings = [setting for name in names if (setting := declared.get(name) or of_listener(name))]
    given = [
        Synonym(setting.name, _shown(setting, layer[setting.name]), source)
        for source, layer in layers.by_source()
        for setting in settings
        if setting.name in layer
    ]
    defaults = [
        Synonym(setting.name, _shown(setting, setting.default), DEFAULT_CONFIG)
        for setting in settings
        if setting.default is not None and setting.name in declared
    ]
    return (*given, *defaults)


def _described(
    setting: Setting[Value], value: Value, synonyms: tuple[Synonym, ...], *, read_only: bool
) -> Described:
    return Described(
        name=setting.name,
        value=_shown(setting, value),
        source=synonyms[0].source if synonyms else DEFAULT_CONFIG,
        synonyms=synonyms,
        type_code=setting.kind.code,
        is_sensitive=setting.is_sensitive,
        read_only=read_only,
        documentation=setting.doc,
    )


def _shown(setting: Setting[Value], value: Value) -> str | None:
    return None if setting.is_sensitive else text_of(value)
