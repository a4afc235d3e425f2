"""The settings of single listeners: those of TLS and SASL after `listener.name.<listener>.`."""

from copy import copy

from .declaration import Setting, Value
from .sasl import sasl_listener_setting
from .tls import listener_setting


def of_listener(name: str) -> Setting[Value] | None:
    """The declaration of a setting of a single listener, under its whole name."""
    found = listener_setting(name) or sasl_listener_setting(name)
    if found is None:
        return None
    setting = copy(found[-1])
    setting.name = name
    return setting


def without_prefix(name: str) -> str | None:
    """The name of the same setting of all listeners; None: `name` is not of a single listener."""
    found = listener_setting(name) or sasl_listener_setting(name)
    return None if found is None else found[-1].name
