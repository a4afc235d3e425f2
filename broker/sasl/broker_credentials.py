"""As whom this broker logs in to others: from its settings when it starts.

As in Kafka, it is a client with the settings of its own listener of the same name: the login module
of that listener, which names the users of PLAIN, also has the `username` and `password` for this.
"""

from collections.abc import Callable
from typing import Final

from odradek.jaas import MODULE_OF

from ..runtime import Runtime
from ..settings.declaration import ConfigError
from ..settings.sasl import ENABLED, JAAS, MECHANISM_BETWEEN_BROKERS, ListenerSasl
from . import oauthbearer
from .client import ClientMechanism, Credentials, ServerRefused
from .client_mechanisms import logins_of
from .known_users import NONCE_BITS, random_text
from .mechanism import LoginRefused, ServerMechanism
from .offers import BUILT, login_options

_TOKEN: Final = "tokenauth"


def make_credentials(given: ListenerSasl, mechanism: str, runtime: Runtime) -> Credentials:
    """The credentials for the listener, by `sasl.mechanism.inter.broker.protocol`.

    Raises: ConfigError.
    """
    _check_mechanism(given, mechanism)
    options = login_options(mechanism, given) or {}
    if mechanism == oauthbearer.NAME:
        from .token_login import token_credentials

        return token_credentials(given, options, runtime)
    user, password = options.get("username", ""), options.get("password", "")
    if not user or not password:
        listener = f"listener.name.{given.listener_name.lower()}.{mechanism.lower()}"
        raise ConfigError(
            f"this broker cannot log in to others on the listener {given.listener_name}: set "
            f'{listener}.{JAAS} to {MODULE_OF[mechanism]} required username="USER" '
            'password="PASSWORD";'
        )
    if options.get(_TOKEN, "").lower() == "true":
        raise ConfigError(
            f"{given.name_of(JAAS, mechanism)} has {_TOKEN}=true, but delegation tokens are not "
            "built"
        )
    random_bits = runtime.random_bits
    new_login = logins_of(mechanism, user, password, lambda: random_text(random_bits(NONCE_BITS)))

    async def begin() -> ClientMechanism:
        return new_login()

    return Credentials(mechanism, user, begin)


def _check_mechanism(given: ListenerSasl, mechanism: str) -> None:
    if mechanism not in BUILT:
        raise ConfigError(
            f"{MECHANISM_BETWEEN_BROKERS}={mechanism} is not built, and the listener "
            f"{given.listener_name} is for brokers: set it to one of {', '.join(BUILT)}"
        )
    if mechanism not in given[ENABLED]:
        raise ConfigError(
            f"{MECHANISM_BETWEEN_BROKERS}={mechanism} must be one of {given.name_of(ENABLED)}="
            f"{','.join(given[ENABLED])}, as the listener {given.listener_name} is for brokers"
        )


async def check_credentials(
    credentials: Credentials, begin: Callable[[], ServerMechanism], listener_name: str
) -> None:
    """Have this broker log in to itself: other brokers know the same users.

    `begin` begins a login at this broker.  Raises: ConfigError.
    """
    server = begin()
    try:
        client = await credentials.begin()
    except ServerRefused as error:
        raise ConfigError(
            f"this broker cannot log in to others by {credentials.mechanism} on the listener "
            f"{listener_name}: it {error}"
        ) from None
    try:
        token = client.first()
        while not client.is_complete:
            token = client.step(server.step(token))
    except (LoginRefused, ServerRefused) as error:
        raise ConfigError(
            f"other brokers would not let this one log in as {credentials.user!r} by "
            f"{credentials.mechanism} on the listener {listener_name}: {error}"
        ) from None
