"""The settings of single listeners, after `listener.name.<listener>.`: TLS, SASL, and limits."""

from copy import copy

from .connections import limit_setting
from .declaration import Setting, Value
from .sasl import sasl_listener_setting
from .tls import listener_setting


def of_listener(name: str) -> Setting[Value] | None:
    """The declaration of a setting of a single listener, under its whole name."""
    found = _found(name)
    if found is None:
        return None
    setting = copy(found)
    setting.name = name
    return setting


def without_prefix(name: str) -> str | None:
    """The name of the same setting of all listeners; None: `name` is not of a single listener."""
    found = _found(name)
    return None if found is None else found.name


def _found(name: str) -> Setting[Value] | None:
    for settings in (listener_setting, sasl_listener_setting, limit_setting):
        found = settings(name)
        if found is not None:
            setting = found[-1]
            assert isinstance(setting, Setting)
            return setting
    return None
