"""Changes of configs while the broker runs: computes the new settings, and checks them.

A resource (a topic, a broker, all brokers, a group) has a few settings of its own, stored as texts.
The new texts are computed from the current ones and then checked. Only changed settings are
checked, so that a stored setting without effect does not prevent other changes.

The rule: an accepted change has its effect. A setting of Kafka's that is not built is accepted only
with its default, or with its current value.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

from odradek.protocol.errors import ErrorCode, Refused

from .declaration import LIST, ConfigError, NotBuilt, Setting, Value, text_of
from .described import Declared, Layers
from .of_listener import of_listener
from .sasl import SASL_SETTINGS
from .tls import TLS_SETTINGS, listener_setting
from .topic_config import TOPIC_SETTINGS, broker_value, check_compaction_lags
from .topic_declaration import BUILT, TopicSetting

Texts = Mapping[str, str]

_NAMES_SHOWN_MAX: Final = 10
FIXED: Final = frozenset(
    {
        "listeners",
        "advertised.listeners",
        "listener.security.protocol.map",
        *TLS_SETTINGS,
        *SASL_SETTINGS,
    }
)
"""Kafka can change these at run time; here that still requires a restart."""


class Operation(IntEnum):
    """The operation of IncrementalAlterConfigs on one setting."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    """One setting to change; `operation` is the client's number, not yet checked."""

    name: str
    operation: int
    value: str | None


def check_form(changes: Iterable[ConfigChange]) -> None:
    """Check that changes are well-formed and name no config twice.

    Raises: Refused (INVALID_REQUEST).
    """
    changes = list(changes)
    names = {change.name for change in changes}
    no_values = [c.name for c in changes if c.value is None and c.operation != Operation.DELETE]
    if no_values:
        raise _invalid_request(f"there is no value for {_listed(no_values)}")
    if len(names) != len(changes):
        raise _invalid_request("a config is named twice")
    unknown = [change.name for change in changes if change.operation not in tuple(Operation)]
    if unknown:
        raise _invalid_request(f"there is no such operation as that for {_listed(unknown)}")


def changed(current: Texts, changes: Iterable[ConfigChange], declared: Declared) -> dict[str, str]:
    """The settings after `changes`, which must have passed `check_form`.

    Raises: Refused (INVALID_CONFIG) for APPEND or SUBTRACT on a setting that is no list.
    """
    texts = dict(current)
    for name, operation, value in changes:
        if operation == Operation.DELETE:
            texts.pop(name, None)
            continue
        assert value is not None
        if operation == Operation.SET:
            texts[name] = value
        else:
            texts[name] = _changed_list(
                texts.get(name), Operation(operation), value, name, declared
            )
    return texts


def _changed_list(
    current: str | None, operation: Operation, value: str, name: str, declared: Declared
) -> str:
    setting = declared.get(name) or of_listener(name)
    if setting is None or setting.kind.code != LIST.code:
        raise _invalid_config(f"{name[:100]} is no list: {operation.name} is not possible")
    default = setting.default
    assert default is None or isinstance(default, tuple)
    items = (default or ()) if current is None else LIST.parse(current)
    given = dict.fromkeys(LIST.parse(value))
    if operation == Operation.SUBTRACT:
        return ",".join(item for item in items if item not in given)
    known = frozenset(items)
    return ",".join((*items, *(item for item in given if item not in known)))


def check_topic(current: Texts, wanted: Texts, given: Mapping[str, Value]) -> None:
    """Check the changed settings of a topic.  Raises: Refused (INVALID_CONFIG)."""
    for name, text in _news(current, wanted):
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            raise _invalid_config(f"there is no topic config named {name[:100]!r}")
        try:
            value = setting.parse(text)
        except ConfigError as error:
            raise _invalid_config(str(error)) from None
        if setting.effect != BUILT and value not in _harmless(setting, current.get(name), given):
            raise _not_built(setting, text, broker_value(setting, given))
    try:
        check_compaction_lags(wanted, given)
    except ConfigError as error:
        raise _invalid_config(str(error)) from None


def _harmless(
    setting: TopicSetting[Value], current: str | None, given: Mapping[str, Value]
) -> list[Value]:
    values = [setting.default, broker_value(setting, given)]
    try:
        return values if current is None else [*values, setting.parse(current)]
    except ConfigError:  # stored by another broker that supports it
        return values


def check_broker(
    current: Texts, wanted: Texts, declared: Declared, layers: Layers, *, is_cluster: bool
) -> None:
    """Check the changed settings of a broker, or of all brokers, each by itself.

    Raises: Refused (INVALID_REQUEST, INVALID_CONFIG).
    """
    from .known import CHANGEABLE, PER_BROKER, PER_LISTENER

    news = dict(_news(current, wanted))
    settings = {name: declared.get(name) or of_listener(name) for name in news}
    for name, setting in settings.items():
        if setting is None:
            raise _invalid_config(f"there is no config named {name[:100]!r} that could be changed")
    of_one = {name for name in news if name not in declared}  # of one listener
    changeable = {name for name in of_one if listener_setting(name) and ".allow." not in name}
    static = sorted(news.keys() - CHANGEABLE - changeable)
    if static:
        raise _invalid_request(f"a running broker cannot change {_listed(static)}")
    for_listeners = sorted(news.keys() & PER_LISTENER)
    if for_listeners:
        raise _invalid_request(
            f"only of a single listener can be changed: {_listed(for_listeners)}"
        )
    for_brokers = sorted(news.keys() & (PER_BROKER | of_one))
    if for_brokers and is_cluster:
        raise _invalid_request(f"only of a single broker can be changed: {_listed(for_brokers)}")
    given = layers.merged()
    for name, text in news.items():
        setting = settings[name]
        assert setting is not None
        _check_dynamic(setting, text, given)


def _check_dynamic(setting: Setting[Value], text: str, given: Mapping[str, Value]) -> None:
    from .known import UNBUILT

    try:
        value = setting.parse(text)
    except NotBuilt as error:
        raise _invalid_config(str(error)) from None
    except ConfigError as error:
        raise _invalid_request(str(error)) from None
    now = given.get(setting.name, setting.default)
    is_fixed = setting.name in UNBUILT or setting.name in FIXED
    if is_fixed and value not in (now, setting.default):
        raise _not_built(setting, text, now)


def _news(current: Texts, wanted: Texts) -> list[tuple[str, str]]:
    return [(name, text) for name, text in wanted.items() if current.get(name) != text]


def _listed(names: list[str]) -> str:
    shown = ", ".join(name[:100] for name in names[:_NAMES_SHOWN_MAX])
    return shown if len(names) <= _NAMES_SHOWN_MAX else f"{shown} and others"


def _not_built(setting: Setting[Value], text: str, now: Value) -> Refused:
    asked = setting.name if setting.is_sensitive else f"{setting.name}={text[:100]}"
    shown = "the present value" if setting.is_sensitive else text_of(now)
    return _invalid_config(f"to change to {asked} is not built yet: only {shown} is")


def _invalid_request(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


def _invalid_config(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, message)
