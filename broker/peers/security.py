"""How this broker connects to other brokers, by their listeners.

As in Kafka, a broker is a client with the settings of its own listener of the same name: it shows
that listener's certificate, trusts that listener's truststore, and logs in by its login module.
"""

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..config import Config
from ..runtime import Runtime
from ..settings.private import MECHANISM

if TYPE_CHECKING:
    from ssl import SSLContext

    from ..sasl.client import Credentials
    from ..tls.context import Tls

PLAINTEXT: Final = "PLAINTEXT"


class Security:
    """What connections to one listener need.  It is read for each new connection."""

    def __init__(
        self,
        protocol: str = PLAINTEXT,
        context: "SSLContext | None" = None,
        credentials: "Credentials | None" = None,
    ) -> None:
        """`context`: None without TLS.  `credentials`: None without SASL."""
        self.protocol = protocol
        self.context = context
        self.credentials = credentials

    def why_not(self, listener_name: str, protocol: str) -> str | None:
        """Why another broker, which speaks `protocol` there, can't be spoken with; None if it can.

        A broker never speaks with less security than its own listener of that name has.
        """
        if protocol == self.protocol:
            return None
        return (
            f"it speaks {protocol} on its listener {listener_name}, and this broker "
            f"{self.protocol} (listener.security.protocol.map)"
        )


Securities = Mapping[str, Security]
"""By the names of the listeners between brokers."""


def load_securities(config: Config, served: "Mapping[str, Tls]", runtime: Runtime) -> Securities:
    """Load stores and credentials for the listeners between brokers.  Raises: ConfigError.

    `served` has the TLS of this broker's own listeners: it must trust itself, or the brokers could
    not speak with each other.
    """
    return {
        name: Security(
            config.security_protocols.get(name, PLAINTEXT),
            load_context(config, name, served[name]) if name in served else None,
            _credentials(config, name, runtime),
        )
        for name in sorted(config.broker_listeners.names)
    }


def load_context(config: Config, listener_name: str, served: "Tls") -> "SSLContext":
    """Load the stores for connections to one listener.  Raises: ConfigError."""
    from ..tls.client import check_client_context, make_client_context

    given = config.listener_tls(listener_name)
    assert given is not None
    context = make_client_context(given)
    if _has_others(config):
        check_client_context(context, served, given, host=_advertised_host(config, listener_name))
    return context


def _credentials(config: Config, listener_name: str, runtime: Runtime) -> "Credentials | None":
    given = config.listener_sasl(listener_name)
    if given is None:
        return None
    if config.private_endpoints:
        mechanism = MECHANISM
    elif _has_others(config):
        mechanism = config.sasl_mechanism_inter_broker_protocol
    else:
        return None
    from ..sasl.broker_credentials import make_credentials

    return make_credentials(given, mechanism, runtime)


def _has_others(config: Config) -> bool:
    """Whether other brokers may exist that are not in this process."""
    return config.zookeeper_connect is not None


def _advertised_host(config: Config, listener_name: str) -> str:
    (endpoint,) = (end for end in config.advertised_endpoints if end.name == listener_name)
    return endpoint.host or socket.gethostname()
