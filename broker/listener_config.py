"""The listeners of a configuration: where the broker listens, and what protects it there."""

from collections.abc import Iterable, Mapping

from .net.endpoints import (
    PRIVATE,
    BrokerListeners,
    Endpoint,
    check_listeners,
    choose_broker_listeners,
    parse_also_accepting,
    parse_endpoints,
    parse_protocol_map,
)
from .settings.built import BrokerSettings
from .settings.connections import limit_name, limit_setting
from .settings.declaration import INT32_MAX, Value
from .settings.described import Layers
from .settings.sasl import ListenerSasl, sasl_listener_setting
from .settings.tls import CLIENT_AUTH, MAPPING_RULES, ListenerTls, listener_setting


class ListenerConfig(BrokerSettings):
    """The part of a `Config` that is about its listeners."""

    listener_endpoints: tuple[Endpoint, ...]
    """The addresses to listen on."""
    advertised_endpoints: tuple[Endpoint, ...]
    """The addresses that clients connect to.  Port 0 stands for the bound port of the listener with
    this name, an empty host for this machine's name."""
    security_protocols: dict[str, str]
    """By listener name."""
    broker_listeners: BrokerListeners
    private_endpoints: tuple[Endpoint, ...] = ()  # also to listen on, but not shown to clients
    _private_password: str = ""
    layers: Layers
    """The settings that are set, by where they are set."""
    _given: Mapping[str, Value]
    """The same, without those that others take precedence over."""

    def _use_listeners(self) -> None:
        """Take the listeners from the settings.  Raises: ConfigError."""
        self.listener_endpoints = parse_endpoints("listeners", self.listeners)
        self.advertised_endpoints = (
            self.listener_endpoints
            if self.advertised_listeners is None
            else parse_endpoints("advertised.listeners", self.advertised_listeners)
        )
        self.security_protocols = parse_protocol_map(
            "listener.security.protocol.map", self.listener_security_protocol_map
        )
        check_listeners(self.listener_endpoints, self.advertised_endpoints, self.security_protocols)
        security_protocol = self.security_inter_broker_protocol
        self.broker_listeners = choose_broker_listeners(
            inter_broker=self.inter_broker_listener_name,
            security_protocol=security_protocol
            if "security.inter.broker.protocol" in self._given
            else None,
            control_plane=self.control_plane_listener_name,
            advertised=self.advertised_endpoints,
            protocols=self.security_protocols,
            is_alone=self.zookeeper_connect is None,
        )
        self.broker_listeners = self.broker_listeners._replace(
            also_accepting=parse_also_accepting(
                "odradek.broker.listeners.accepted",
                self.odradek_broker_listeners_accepted,
                self.listener_endpoints,
            )
        )
        if self.private_endpoints:
            self.broker_listeners = BrokerListeners(PRIVATE.name, None)
            self.security_protocols = {**self.security_protocols, PRIVATE.name: "SASL_PLAINTEXT"}

    def limit_of_listener(self, listener_name: str, name: str) -> int:
        """The limit of connections of one listener, by the name of the broker's limit."""
        limit = self._given.get(limit_name(listener_name, name), INT32_MAX)
        assert isinstance(limit, int)
        return limit

    @property
    def broker_only_listeners(self) -> frozenset[str]:
        """Listeners for brokers, separate from those for clients."""
        count = len(self.listener_endpoints) + len(self.private_endpoints)
        return self.broker_listeners.names if count > 1 else frozenset()

    def listener_tls(self, listener_name: str) -> ListenerTls | None:
        """The settings of TLS of a listener; None if it does not use TLS."""
        protocol = self.security_protocols.get(listener_name, "")
        if not protocol.endswith("SSL"):
            return None
        has_sasl = self.has_sasl(listener_name)
        return ListenerTls(listener_name, self._given, has_sasl=has_sasl)

    def has_sasl(self, listener_name: str) -> bool:
        """Whether clients of a listener must log in."""
        return self.security_protocols.get(listener_name, "").startswith("SASL_")

    def listener_sasl(self, listener_name: str) -> ListenerSasl | None:
        """The settings of SASL of a listener; None if it does not use SASL.

        They are those of the start: no admin client decides who may log in.
        """
        if not self.has_sasl(listener_name):
            return None
        if listener_name == PRIVATE.name:
            from .settings.private import private_login

            return private_login(listener_name, self._private_password)
        return ListenerSasl(listener_name, self.layers.static)

    def _open_listeners(self) -> list[str]:
        """A warning for the listeners on which a stranger could do everything."""
        if self.authorizer_class_name and not self.allow_everyone_if_no_acl_found:
            return []
        found = [
            str(end)
            for end in self.listener_endpoints
            if not end.is_loopback and self._lets_in_everyone(end.name)
        ]
        if not found:
            return []
        where = " or ".join(found)
        if self.authorizer_class_name:
            return [
                f"everyone who reaches {where} can do everything with what no ACL is about, and "
                "add and remove ACLs if none is about the cluster: see "
                "allow.everyone.if.no.acl.found"
            ]
        return [
            f"everyone who reaches {where} can read, write and delete: set a listener "
            "with SASL, ssl.client.auth=required or authorizer.class.name, or listen on 127.0.0.1"
        ]

    def _lets_in_everyone(self, listener_name: str) -> bool:
        tls = self.listener_tls(listener_name)
        has_certificates = tls is not None and tls["ssl.client.auth"] == "required"
        return not self.has_sasl(listener_name) and not has_certificates

    def _listeners_without_certificates(self) -> list[str]:
        """A warning for each listener that asks for no certificates although the setting of all
        listeners does (KIP-684)."""
        if self.ssl_client_auth == "none":
            return []
        settings = [self.listener_tls(end.name) for end in self.listener_endpoints]
        return [
            f"setting {CLIENT_AUTH} has no effect on {tls.listener_name}, where clients log in: "
            f"set {tls.own_name(CLIENT_AUTH)} as well"
            for tls in settings
            if tls is not None and tls.has_sasl and tls.name_of(CLIENT_AUTH) == CLIENT_AUTH
        ]

    def _settings_of_no_listener(self, static: Mapping[str, Value]) -> list[str]:
        """A warning for each setting of a listener that does not exist, or has no TLS or SASL."""
        return [
            f"setting {name} has no effect: {reason}"
            for name, reason in self._of_no_listener(static)
        ]

    def _of_no_listener(self, names: Iterable[str]) -> list[tuple[str, str]]:
        """The settings among `names` of a listener that cannot use them, and why."""
        served = {end.name for end in self.listener_endpoints}
        protocols = {self.security_protocols[listener_name] for listener_name in served}
        found = []
        for name in names:
            limit = limit_setting(name)
            if limit is not None and limit[0] not in served:
                found.append((name, f"{limit[0]} is not a listener"))
            if name == MAPPING_RULES and "SASL_SSL" in protocols and "SSL" not in protocols:
                found.append((name, "clients of listeners with SASL are named by their logins"))
            tls, sasl = listener_setting(name), sasl_listener_setting(name)
            of_one = tls or sasl
            if of_one is None:
                continue
            listener_name, of = of_one[0], "SSL" if tls else "SASL"
            if listener_name not in served or of not in self.security_protocols[listener_name]:
                found.append((name, f"{listener_name} is not a listener with {of}"))
            elif tls and tls[1].name == MAPPING_RULES and self.has_sasl(listener_name):
                found.append((name, f"clients of {listener_name} are named by their logins"))
            elif sasl and sasl[1] and sasl[1] not in self._mechanisms(listener_name):
                found.append((name, f"{listener_name} does not offer {sasl[1]}"))
        return found

    def _mechanisms(self, listener_name: str) -> tuple[str, ...]:
        given = self.listener_sasl(listener_name)
        return () if given is None else given["sasl.enabled.mechanisms"]
