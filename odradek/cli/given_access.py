"""How the fixtures' tests reach brokers of others: by the properties of a client in a file.

All are kept under librdkafka's names (properties.py); here they get the names of each client.
What only concerns how a client works (linger.ms, group.id) is the tests' own affair.
"""

import ssl
from pathlib import Path
from typing import Any, Final, cast

from odradek.broker.sasl.client import ClientMechanism
from odradek.client_configs import (
    OAUTHBEARER,
    ClientConfig,
    ClientName,
    PropertiesConfig,
    PythonClientConfig,
    for_spark,
    no_client,
)

from .client_sasl import TOKEN_PROPERTIES, has_own_tokens, is_librdkafkas
from .client_tls import tls_context
from .clients import Cluster, cluster_of
from .errors import CommandError
from .java_properties import java_properties
from .layers import read_layer
from .login import begin

_CONNECTING: Final = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.")


class GivenAccess:
    """The access that a file gives; every test gets it under the names of its client."""

    def __init__(self, path: str | Path) -> None:
        """Raises: CommandError."""
        self._cluster = cluster_of([read_layer(path)])
        self._path = path
        self._properties = {
            name: value
            for name, value in self._cluster.properties.items()
            if name.startswith(_CONNECTING)
        }
        self._tls = tls_context(self._properties)

    @property
    def bootstrap_servers(self) -> str:
        """The brokers that the file names; empty if it names none."""
        return self._cluster.properties.get("bootstrap.servers", "")

    @property
    def mechanism(self) -> str | None:
        """How clients log in; None: they need not."""
        if not self._protocol.startswith("SASL"):
            return None
        return self._properties["sasl.mechanism"]

    def tls_context(self) -> ssl.SSLContext | None:
        """How Python speaks TLS; None: not at all."""
        return self._tls

    def begin_login(self) -> ClientMechanism:
        """Begin a login.  Raises: ServerRefused."""
        assert self.mechanism is not None
        return begin(self.mechanism, self._properties)

    def check_reachable(self, bootstrap_servers: str) -> None:
        """Return once a broker has answered, and accepted the login.  Raises: CommandError."""
        if self.mechanism == OAUTHBEARER and is_librdkafkas(self._properties):
            raise CommandError(
                f"{self._path}: the fixtures can't log in by OAUTHBEARER with tokens that "
                "librdkafka gets"
            )
        given = {**self._properties, "bootstrap.servers": bootstrap_servers}
        Cluster(given, self._cluster.sources).check_reachable()

    def config(self, client: ClientName, bootstrap_servers: str) -> ClientConfig:
        """The configuration of a client.  Raises: ValueError."""
        match client:
            case "kafka-python" | "aiokafka":
                return self._python(client, bootstrap_servers)
            case "confluent":
                return self._confluent(bootstrap_servers)
            case "java":
                return self._java(bootstrap_servers)
            case "spark":
                return for_spark(self._java(bootstrap_servers))
        raise no_client(client)

    @property
    def _protocol(self) -> str:
        return self._properties.get("security.protocol", "PLAINTEXT")

    def _python(self, client: str, bootstrap_servers: str) -> PythonClientConfig:
        config: PythonClientConfig = {"bootstrap_servers": bootstrap_servers}
        if self._protocol != "PLAINTEXT":
            config["security_protocol"] = self._protocol
        if self._tls is not None:
            config["ssl_context"] = self._tls
        if self.mechanism == OAUTHBEARER:
            from . import client_tokens

            provider = client_tokens.for_kafka_python
            if client == "aiokafka":
                provider = client_tokens.for_aiokafka
            config["sasl_oauth_token_provider"] = provider(self._properties)
        elif self.mechanism is not None:
            config["sasl_plain_username"] = self._properties["sasl.username"]
            config["sasl_plain_password"] = self._properties["sasl.password"]
        if self.mechanism is not None:
            config["sasl_mechanism"] = self.mechanism
        return config

    def _confluent(self, bootstrap_servers: str) -> PropertiesConfig:
        given: dict[str, Any] = {"bootstrap.servers": bootstrap_servers, **self._properties}
        if has_own_tokens(self._properties):
            from .client_tokens import for_librdkafka

            given = {name: value for name, value in given.items() if name not in TOKEN_PROPERTIES}
            given |= for_librdkafka(self._properties)
        return cast(PropertiesConfig, given)

    def _java(self, bootstrap_servers: str) -> PropertiesConfig:
        given = {
            "bootstrap.servers": bootstrap_servers,
            **java_properties(self._properties),
        }
        return cast(PropertiesConfig, given)
