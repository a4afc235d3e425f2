"""Settings of SASL: for all listeners, or with the prefix `listener.name.<listener>.` for one.

Some can also have the name of a mechanism, in small letters, after that prefix.
"""

from collections.abc import Mapping
from typing import Any, Final

from odradek.jaas import MODULE_OF

from .declaration import CLASS, INT, LIST, LONG, PASSWORD, STRING, Setting, Value, declared_in
from .oauthbearer import OAuthBearerSettings

ENABLED: Final = "sasl.enabled.mechanisms"
JAAS: Final = "sasl.jaas.config"
MAX_REAUTH_MS: Final = "connections.max.reauth.ms"
MAX_RECEIVE_SIZE: Final = "sasl.server.max.receive.size"
MECHANISM_BETWEEN_BROKERS: Final = "sasl.mechanism.inter.broker.protocol"
CALLBACK_HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_PREFIX: Final = "listener.name."
_OAUTHBEARER: Final = "org.apache.kafka.common.security.oauthbearer"
UNSECURED_HANDLER: Final = (
    f"{_OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
SIGNED_HANDLER: Final = f"{_OAUTHBEARER}.OAuthBearerValidatorCallbackHandler"
ENDPOINT_LOGIN_HANDLER: Final = f"{_OAUTHBEARER}.OAuthBearerLoginCallbackHandler"
_HANDLERS: Final = (UNSECURED_HANDLER, SIGNED_HANDLER)
_LOGIN_HANDLERS: Final = (
    f"{_OAUTHBEARER}.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
    ENDPOINT_LOGIN_HANDLER,
)


class SaslSettings:
    """How clients log in on listeners with SASL_PLAINTEXT or SASL_SSL.

    Those of `_LISTENER_S` can have the prefix `listener.name.<listener>.`, with the listener's name
    in small letters, and those of `_MECHANISM_S` after it the mechanism's name.
    """

    sasl_enabled_mechanisms = Setting(
        ENABLED,
        LIST,
        ("GSSAPI",),
        "The mechanisms that clients can log in by: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, "
        "OAUTHBEARER. Kafka's default is refused on a listener with SASL: GSSAPI is not built.",
    )
    sasl_jaas_config = Setting(
        JAAS,
        PASSWORD.or_none,
        None,
        'The users of PLAIN, as user_NAME="PASSWORD" of Kafka\'s PlainLoginModule, and as whom '
        "this broker logs in to others, as the module's username and password. Kafka reads it "
        "only with the prefix of a listener and a mechanism; here, without it, it is for all "
        "listeners.",
    )
    sasl_server_callback_handler_class = Setting(
        CALLBACK_HANDLER,
        CLASS.or_none,
        None,
        "How the tokens of OAUTHBEARER are checked, by the name of Kafka's class. Unset: as "
        "unsecured tokens.",
        choices=_HANDLERS,
    )
    sasl_login_callback_handler_class = Setting(
        LOGIN_HANDLER,
        CLASS.or_none,
        None,
        "Where this broker's own tokens of OAUTHBEARER come from, by the name of Kafka's class: "
        "a token endpoint or a file, or by default the login module, as unsecured ones.",
        choices=_LOGIN_HANDLERS,
    )
    sasl_mechanism_inter_broker_protocol = Setting(
        MECHANISM_BETWEEN_BROKERS,
        STRING,
        "GSSAPI",
        "The mechanism by which this broker logs in to others: PLAIN, SCRAM-SHA-256, "
        "SCRAM-SHA-512 or OAUTHBEARER. Kafka's default is refused if the listener between brokers "
        "has SASL: GSSAPI is not built.",
    )
    connections_max_reauth_ms = Setting(
        MAX_REAUTH_MS,
        LONG,
        0,
        "How long a login lasts. A client must log in again before; 0 or less: it lasts for ever.",
    )
    sasl_server_max_receive_size = Setting(
        MAX_RECEIVE_SIZE,
        INT,
        524_288,
        "The largest request of a client that has not logged in.",
    )
    connection_failed_authentication_delay_ms = Setting(
        "connection.failed.authentication.delay.ms",
        INT,
        100,
        "How long the answer to a refused login is held back. Then the connection is closed.",
        at_least=0,
    )
    odradek_authentication_timeout_ms = Setting(
        "odradek.authentication.timeout.ms",
        INT,
        10_000,
        "A connection whose client has not ended its TLS handshake after this long is closed, and "
        "so is one whose client has not logged in after this long.",
        at_least=1,
    )


_TOKEN_SETTINGS: Final = declared_in(OAuthBearerSettings)
SASL_SETTINGS: Final[dict[str, Setting[Value]]] = declared_in(SaslSettings) | _TOKEN_SETTINGS
_LISTENER_S: Final = (ENABLED, MAX_REAUTH_MS, MAX_RECEIVE_SIZE)
_MECHANISM_S: Final = (JAAS, MAX_REAUTH_MS, CALLBACK_HANDLER, LOGIN_HANDLER)
_OF_TOKENS: Final = tuple(name for name in _TOKEN_SETTINGS if name.startswith("sasl."))


def sasl_listener_setting(name: str) -> tuple[str, str, Setting[Value]] | None:
    """What `name` sets, if it is a setting of a single listener.

    The names of the listener and of the mechanism are in capitals; the mechanism's may be empty.
    """
    if not name.startswith(_PREFIX):
        return None
    rest = name.removeprefix(_PREFIX)
    for own in {*_LISTENER_S, *_MECHANISM_S, *_OF_TOKENS}:
        # Kafka's prefix has small letters, and does not work with capitals.
        if not rest.endswith(f".{own}") or rest != rest.lower():
            continue
        prefix = rest.removesuffix(f".{own}").upper()
        listener_name, _, mechanism = prefix.rpartition(".")
        if own in _MECHANISM_S and listener_name and mechanism in MODULE_OF:
            return listener_name, mechanism, SASL_SETTINGS[own]
        if own in _OF_TOKENS and listener_name and mechanism == "OAUTHBEARER":
            return listener_name, mechanism, SASL_SETTINGS[own]
        if own in _LISTENER_S:
            return prefix, "", SASL_SETTINGS[own]
    return None


class ListenerSasl:
    """The settings of SASL of one listener: of a mechanism, else its own, else of all listeners."""

    def __init__(self, listener_name: str, given: Mapping[str, Value]) -> None:
        self.listener_name = listener_name
        self._prefix = f"{_PREFIX}{listener_name.lower()}."
        self._given = given

    def __getitem__(self, name: str) -> Any:
        """The value of a setting by Kafka's name without the prefix."""
        return self.of_mechanism("", name)

    def of_mechanism(self, mechanism: str, name: str) -> Any:
        """The value of a setting for one mechanism."""
        return self._given.get(self.name_of(name, mechanism), SASL_SETTINGS[name].default)

    def is_set(self, name: str) -> bool:
        """Whether a setting is not at its default."""
        return self.name_of(name) in self._given

    def own_name(self, name: str, mechanism: str) -> str:
        """The name of the setting for this listener and one mechanism."""
        return f"{self._prefix}{mechanism.lower()}.{name}"

    def name_of(self, name: str, mechanism: str = "") -> str:
        """The name under which the setting is set, to be shown to the user."""
        for candidate in (self.own_name(name, mechanism), self._prefix + name):
            if candidate in self._given:
                return candidate
        return name
