"""What each listener offers, made from its settings when the broker starts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from odradek.jaas import MODULE_OF, JaasError, parse_jaas, parse_jaas_for

from ..settings.declaration import ConfigError
from ..settings.sasl import ListenerSasl
from . import plain, scram
from .credentials import ScramUsers
from .known_users import NONCE_BITS, random_text
from .login import Offer
from .mechanism import ServerMechanism
from .scram_server import ScramServer

ENABLED: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
BUILT: Final = (plain.NAME, *scram.MECHANISMS)


class Secrets(NamedTuple):
    """What SCRAM needs to be unpredictable."""

    of_cluster: bytes
    """The same on all brokers, who alone know it."""
    random_bits: Callable[[int], int]
    """`random_bits(n)` returns a number of n bits that nobody can guess."""


def make_offer(given: ListenerSasl, users: ScramUsers, secrets: Secrets) -> Offer:
    """Check the settings of a listener, and make its offer.  Raises: ConfigError."""
    mechanisms = {}
    for name in _enabled(given):
        mechanisms[name] = _beginning(name, given, users, secrets)
    lasting = "connections.max.reauth.ms"
    return Offer(
        mechanisms=mechanisms,
        reauth_ms={name: given.of_mechanism(name, lasting) for name in mechanisms},
        receive_bytes_max=given["sasl.server.max.receive.size"],
    )


def offers_scram(given: ListenerSasl) -> bool:
    """Whether clients can log in by SCRAM there."""
    return not scram.MECHANISMS.keys().isdisjoint(given[ENABLED])


def _enabled(given: ListenerSasl) -> tuple[str, ...]:
    name, wanted = given.name_of(ENABLED), given[ENABLED]
    one_of = f"set it to one or more of {', '.join(BUILT)}"
    if not given.is_set(ENABLED):
        raise ConfigError(
            f"the listener {given.listener_name} needs {ENABLED}: Kafka's default, GSSAPI, is not "
            f"built; {one_of}"
        )
    unknown = [mechanism for mechanism in wanted if mechanism not in BUILT]
    if unknown or not wanted:
        what = f"{unknown[0]} is not built" if unknown else "it is empty"
        raise ConfigError(f"{name}={','.join(wanted)} is not allowed: {what}; {one_of}")
    return tuple(dict.fromkeys(wanted))


def _beginning(
    name: str, given: ListenerSasl, users: ScramUsers, secrets: Secrets
) -> Callable[[], ServerMechanism]:
    options = login_options(name, given)
    if name != plain.NAME:
        return partial(
            ScramServer,
            scram.MECHANISMS[name],
            users.by_mechanism[name],
            secret=secrets.of_cluster,
            new_nonce=lambda: random_text(secrets.random_bits(NONCE_BITS)),
        )
    if options is None:
        raise ConfigError(
            f"the listener {given.listener_name} offers PLAIN, but has no users: set "
            f"listener.name.{given.listener_name.lower()}.plain.{JAAS} to "
            f'{MODULE_OF[name]} required user_NAME="PASSWORD";'
        )
    return partial(plain.PlainServer, plain.users_in(options))


def login_options(mechanism: str, given: ListenerSasl) -> Mapping[str, str] | None:
    """The options of the login module of a mechanism; None without one.

    Without a mechanism's name in it, the setting belongs to the mechanism whose module it has.
    Raises: ConfigError.
    """
    text, name = given.of_mechanism(mechanism, JAAS), given.name_of(JAAS, mechanism)
    if text is None:
        return None
    try:
        if name != JAAS:
            return parse_jaas_for(mechanism, text, name)
        module = parse_jaas(text, name)
    except JaasError as error:
        raise ConfigError(str(error)) from None
    return module.options if module.is_module(MODULE_OF[mechanism]) else None
