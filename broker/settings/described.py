"""Settings as DescribeConfigs shows them: with the value, where it comes from, and its synonyms.

Where a topic's retention.ms comes from log.retention.hours, Kafka calls that a default and names no
synonym, as long as log.retention.ms is not set.  Here the source is what it is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from .declaration import Setting, Value, text_of
from .groups import GROUP_CONFIGS
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
    """What is set for a broker, by where it is set; each counts more than those behind it."""

    own: Mapping[str, Value]
    """For this broker, while it ran."""
    cluster: Mapping[str, Value]
    """For all brokers, while they ran."""
    static: Mapping[str, Value]
    """When it was started."""

    def merged(self) -> dict[str, Value]:
        """What is set, by name."""
        return {**self.static, **self.cluster, **self.own}

    def by_source(self) -> tuple[tuple[int, Mapping[str, Value]], ...]:
        """Kafka's number of each layer, and the layer."""
        return (
            (DYNAMIC_BROKER_CONFIG, self.own),
            (DYNAMIC_DEFAULT_BROKER_CONFIG, self.cluster),
            (STATIC_BROKER_CONFIG, self.static),
        )


class Synonym(NamedTuple):
    """A setting that would give the value if those before it did not."""

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
        """Whether nobody has set it."""
        return self.source == DEFAULT_CONFIG


def all_declared(built: Declared) -> dict[str, Setting[Value]]:
    """Every setting of a broker, by name, with or without an effect."""
    from .known import UNBUILT  # 270 settings that a broker does not need to start

    return {**UNBUILT, **built}


def describe_broker(
    built: Declared, layers: Layers, names: Collection[str] | None
) -> list[Described]:
    """All settings of a broker, or if `names` holds any those of them that exist, by name."""
    from .known import DYNAMIC

    declared, given = all_declared(built), layers.merged()
    chosen = set(names) & declared.keys() if names else declared.keys()
    described = []
    for name in sorted(chosen - (RATES - given.keys())):
        setting = declared[name]
        described.append(
            _described(
                setting,
                given.get(name, setting.default),
                _synonyms((name,), declared, layers),
                read_only=name not in DYNAMIC,
            )
        )
    return described


def describe_cluster(
    built: Declared, layers: Layers, names: Collection[str] | None
) -> list[Described]:
    """What is set for all brokers while they run, or that of it which `names` holds, by name."""
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
    """All settings of a topic, or if `names` holds any those of them that exist, by name."""
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
    """All settings of a consumer group, or if `names` holds any those that exist, by name."""
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
    """A logger and what it lets pass."""
    return Described(name, level, DYNAMIC_BROKER_LOGGER_CONFIG, (), UNKNOWN_TYPE, False, False, "")


def _synonyms(names: Iterable[str], declared: Declared, layers: Layers) -> tuple[Synonym, ...]:
    settings = [declared[name] for name in names]
    given = [
        Synonym(setting.name, _shown(setting, layer[setting.name]), source)
        for source, layer in layers.by_source()
        for setting in settings
        if setting.name in layer
    ]
    defaults = [
        Synonym(setting.name, _shown(setting, setting.default), DEFAULT_CONFIG)
        for setting in settings
        if setting.default is not None
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
