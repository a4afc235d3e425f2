"""Listeners, as configured by `listeners` and `advertised.listeners`."""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..settings.declaration import ConfigError
from ..settings.hosts import is_loopback

_LISTENER: Final = re.compile(
    r"([A-Za-z0-9_.-]+)://(?:\[([0-9A-Fa-f:.%]+)\]|([^\[\]:/]*)):(\d{1,5})"
)
_WILDCARDS: Final = ("0.0.0.0", "::", "0:0:0:0:0:0:0:0")
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class Endpoint(NamedTuple):
    """The address of one listener: its name in capitals, host (without brackets) and port.

    An empty host means all interfaces; in an advertised listener it means this machine's name.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.name}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @property
    def is_wildcard(self) -> bool:
        """Whether the host means all interfaces, so that no client could connect to it."""
        return self.host in _WILDCARDS


def parse_endpoints(setting: str, text: str) -> tuple[Endpoint, ...]:
    """Parse a list of listeners: at least one, each name once.

    Raises: ConfigError.
    """
    endpoints: list[Endpoint] = []
    for item in text.split(","):
        match = _LISTENER.fullmatch(item.strip())
        port = int(match.group(4)) if match else 0
        if match is None or port > 65535:
            raise ConfigError(
                f"{setting}={text} is not allowed: {item.strip()!r} is not NAME://HOST:PORT"
            )
        name = match.group(1).upper()
        if any(endpoint.name == name for endpoint in endpoints):
            raise ConfigError(f"{setting}={text} is not allowed: it names {name} twice")
        endpoints.append(Endpoint(name, match.group(2) or match.group(3) or "", port))
    return tuple(endpoints)


def parse_protocol_map(setting: str, text: str) -> dict[str, str]:
    """Parse NAME:PROTOCOL pairs.

    Raises: ConfigError.
    """
    protocols: dict[str, str] = {}
    for item in text.split(","):
        name, separator, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or not separator or protocol not in _PROTOCOLS or name in protocols:
            raise ConfigError(
                f"{setting}={text} is not allowed: it must be NAME:PROTOCOL with commas, each name "
                f"once, with a PROTOCOL of {', '.join(_PROTOCOLS)}"
            )
        protocols[name] = protocol
    return protocols


def check_listeners(
    listeners: tuple[Endpoint, ...], advertised: tuple[Endpoint, ...], protocols: Mapping[str, str]
) -> None:
    """Check that all listeners can be served and reached.

    Raises: ConfigError.
    """
    for endpoint in listeners:
        protocol = protocols.get(endpoint.name)
        if protocol is None:
            raise ConfigError(
                f"the listener {endpoint.name} has no security protocol: add "
                f"{endpoint.name}:PLAINTEXT to listener.security.protocol.map"
            )
    ports = [endpoint.port for endpoint in listeners if endpoint.port != 0]
    if len(set(ports)) != len(ports):
        raise ConfigError("listeners must not name a port twice")
    names = {endpoint.name for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.name not in names:
            raise ConfigError(
                f"advertised.listeners names {endpoint.name}, which is not one of listeners"
            )
        if endpoint.is_wildcard:
            raise ConfigError(
                f"clients cannot connect to {endpoint}: set advertised.listeners to a host that "
                "they can reach"
            )


PRIVATE: Final = Endpoint("odradek-brokers", "127.0.0.1", 0)
"""Where other brokers of the same process reach a broker.  No configured listener can have this
name, as their names are in capitals."""


class BrokerListeners(NamedTuple):
    """The listeners by which brokers reach each other."""

    inter_broker: str
    control_plane: str | None
    """For requests between the controller and brokers; None: the inter-broker listener."""
    also_accepting: frozenset[str] = frozenset()
    """Where other brokers may still, or already, connect while they move to another listener."""

    @property
    def of_controller(self) -> str:
        """The listener for requests to and from the controller."""
        return self.control_plane or self.inter_broker

    @property
    def names(self) -> frozenset[str]:
        """The listeners of other brokers that this one connects to."""
        return frozenset((self.inter_broker, self.of_controller))

    @property
    def accepting(self) -> frozenset[str]:
        """The own listeners on which requests between brokers are accepted."""
        return self.names | self.also_accepting


def choose_broker_listeners(
    *,
    inter_broker: str | None,
    security_protocol: str | None,
    control_plane: str | None,
    advertised: tuple[Endpoint, ...],
    protocols: Mapping[str, str],
    is_alone: bool,
) -> BrokerListeners:
    """From inter.broker.listener.name, security.inter.broker.protocol, control.plane.listener.name.

    `security_protocol` None: not set.  `is_alone`: no other broker will ever connect, so that it
    does not matter which listener would be for them.

    Raises: ConfigError.

    Source: getInterBrokerListenerNameAndSecurityProtocol, validateValues of Kafka's KafkaConfig.
    """
    if inter_broker is not None and security_protocol is not None:
        raise ConfigError(
            "only one of inter.broker.listener.name and security.inter.broker.protocol may be set"
        )
    names = [endpoint.name for endpoint in advertised]
    chosen = (inter_broker or security_protocol or "PLAINTEXT").strip().upper()
    is_chosen = inter_broker is not None or security_protocol is not None
    if is_alone and not is_chosen and all(protocols[name] != "PLAINTEXT" for name in names):
        chosen = names[0]
    if inter_broker is not None and chosen not in protocols:
        raise ConfigError(
            f"inter.broker.listener.name={chosen} is not in listener.security.protocol.map"
        )
    if chosen not in names:
        raise ConfigError(
            f"brokers have no listener to speak with each other: {chosen} is not in "
            f"advertised.listeners; set inter.broker.listener.name to one of {', '.join(names)}"
        )
    if control_plane is None:
        return BrokerListeners(chosen, None)
    plane = control_plane.strip().upper()
    if plane not in names:
        raise ConfigError(
            f"control.plane.listener.name={plane} is not in advertised.listeners, which has "
            f"{', '.join(names)}"
        )
    if plane == chosen:
        raise ConfigError(
            f"control.plane.listener.name={plane} must be another listener than that between "
            "brokers (inter.broker.listener.name)"
        )
    return BrokerListeners(chosen, plane)


def parse_also_accepting(
    setting: str, names: tuple[str, ...], listeners: tuple[Endpoint, ...]
) -> frozenset[str]:
    """The listeners on which brokers are accepted beside those for them.  Raises: ConfigError."""
    wanted = frozenset(name.strip().upper() for name in names)
    unknown = wanted - {endpoint.name for endpoint in listeners}
    if unknown:
        raise ConfigError(
            f"{setting}={','.join(names)} is not allowed: {min(unknown)} is not one of listeners"
        )
    return wanted


def parse_connection_limits(setting: str, text: str) -> dict[str, int]:
    """Parse ADDRESS:COUNT pairs; an IPv6 address may be in brackets.

    The addresses of the result are written as those of connections.

    Raises: ConfigError.
    """
    limits: dict[str, int] = {}
    for item in filter(None, (item.strip() for item in text.split(","))):
        host, _, count = item.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        if not host or not (count.isascii() and count.isdigit() and len(count) < 10):
            raise ConfigError(
                f"{setting}={text} is not allowed: it must be ADDRESS:COUNT with commas"
            )
        limits[_as_of_connections(host, setting, text)] = int(count)
    return limits


def _as_of_connections(host: str, setting: str, text: str) -> str:
    from ipaddress import ip_address  # rarely needed

    try:
        address = ip_address(host)
    except ValueError:
        raise ConfigError(
            f"{setting}={text} is not allowed: {host} is not an IP address; names are not looked up"
        ) from None
    return str(getattr(address, "ipv4_mapped", None) or address)
