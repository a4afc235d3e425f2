"""What each listener offers, made from its settings when the broker starts."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from odradek.jaas import MODULE_OF, JaasError, parse_jaas, parse_jaas_for

from ..runtime import Runtime
from ..settings.declaration import ConfigError
from ..settings.sasl import ENABLED, JAAS, LOGIN_HANDLER, ListenerSasl
from . import oauthbearer, plain, scram
from .credentials import ScramUsers
from .known_users import NONCE_BITS, random_text
from .login import Offer
from .mechanism import ServerMechanism
from .scram_server import ScramServer

CALLBACK_HANDLER: Final = "sasl.server.callback.handler.class"
BUILT: Final = (plain.NAME, *scram.MECHANISMS, oauthbearer.NAME)


def make_offer(given: ListenerSasl, users: ScramUsers, secret: bytes, runtime: Runtime) -> Offer:
    """Check the settings of a listener, and make its offer.

    `secret` is the same on all brokers of the cluster, who alone know it.

    Raises: ConfigError.
    """
    mechanisms: dict[str, Callable[[], ServerMechanism]] = {}
    keys = None
    for name in _enabled(given):
        _check_handlers(name, given)
        if name == plain.NAME:
            mechanisms[name] = _plain(given)
        elif name == oauthbearer.NAME:
            from .token_offers import offer_tokens

            mechanisms[name], keys = offer_tokens(given, login_options(name, given), runtime)
        else:
            mechanisms[name] = _scram(name, users, secret, runtime.random_bits)
    lasting = "connections.max.reauth.ms"
    return Offer(
        mechanisms=mechanisms,
        reauth_ms={name: given.of_mechanism(name, lasting) for name in mechanisms},
        receive_bytes_max=given["sasl.server.max.receive.size"],
        keys=keys,
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


def _check_handlers(mechanism: str, given: ListenerSasl) -> None:
    for handler in (CALLBACK_HANDLER, LOGIN_HANDLER):
        name = given.name_of(handler, mechanism)
        if mechanism != oauthbearer.NAME and name != handler:
            raise ConfigError(f"{name} is not allowed: only OAUTHBEARER has such classes")


def _scram(
    name: str, users: ScramUsers, secret: bytes, random_bits: Callable[[int], int]
) -> Callable[[], ServerMechanism]:
    return partial(
        ScramServer,
        scram.MECHANISMS[name],
        users.by_mechanism[name],
        secret=secret,
        new_nonce=lambda: random_text(random_bits(NONCE_BITS)),
    )


def _plain(given: ListenerSasl) -> Callable[[], ServerMechanism]:
    options = login_options(plain.NAME, given)
    if options is None:
        raise ConfigError(
            f"the listener {given.listener_name} offers PLAIN, but has no users: set "
            f"{given.own_name(JAAS, plain.NAME)} to "
            f'{MODULE_OF[plain.NAME]} required user_NAME="PASSWORD";'
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
