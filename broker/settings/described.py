"""Settings as DescribeConfigs shows them: with the value, where it comes from, and its synonyms.

Where a topic's retention.ms comes from log.retention.hours, Kafka calls that a default and names no
synonym, as long as log.retention.ms is not set.  Here the source is what it is.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from .declaration import Setting, Value, text_of
from .topic_config import TOPIC_SETTINGS, read_overrides
from .topic_declaration import TopicSetting

DYNAMIC_TOPIC_CONFIG: Final = 1
STATIC_BROKER_CONFIG: Final = 4
DEFAULT_CONFIG: Final = 5


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


def describe_broker(
    built: Mapping[str, Setting[Value]],
    given: Mapping[str, Value],
    names: Collection[str] | None,
) -> list[Described]:
    """All settings of a broker, or if `names` holds any those of them that exist, by name."""
    from .known import DYNAMIC, UNBUILT  # 270 settings that a broker does not need to start

    declared = {**UNBUILT, **built}
    chosen = set(names) & declared.keys() if names else declared.keys()
    described = []
    for name in sorted(chosen):
        setting = declared[name]
        synonyms = _synonyms((name,), declared, given)
        described.append(
            _described(
                setting, given.get(name, setting.default), synonyms, read_only=name not in DYNAMIC
            )
        )
    return described


def describe_topic(
    overrides: Mapping[str, str],
    built: Mapping[str, Setting[Value]],
    given: Mapping[str, Value],
    names: Collection[str] | None,
) -> list[Described]:
    """All settings of a topic, or if `names` holds any those of them that exist, by name."""
    from .known import UNBUILT

    declared = {**UNBUILT, **built}
    values, _ = read_overrides(overrides, given)
    chosen = set(names) & TOPIC_SETTINGS.keys() if names else TOPIC_SETTINGS.keys()
    described = []
    for name in sorted(chosen):
        setting: TopicSetting[Value] = TOPIC_SETTINGS[name]
        synonyms = _synonyms([synonym for synonym, _ in setting.synonyms], declared, given)
        if name in overrides:
            synonyms = (
                Synonym(name, text_of(values[name]), DYNAMIC_TOPIC_CONFIG),
                *synonyms,
            )
        described.append(_described(setting, values[name], synonyms, read_only=False))
    return described


def _synonyms(
    names: Iterable[str], declared: Mapping[str, Setting[Value]], given: Mapping[str, Value]
) -> tuple[Synonym, ...]:
    settings = [declared[name] for name in names]
    static = [
        Synonym(setting.name, _shown(setting, given[setting.name]), STATIC_BROKER_CONFIG)
        for setting in settings
        if setting.name in given
    ]
    defaults = [
        Synonym(setting.name, _shown(setting, setting.default), DEFAULT_CONFIG)
        for setting in settings
        if setting.default is not None
    ]
    return (*static, *defaults)


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
