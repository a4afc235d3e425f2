"""The configuration with which each client connects to a broker, under its own names."""

import secrets
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, NotRequired, TypedDict, get_args

from .jaas import jaas_text

if TYPE_CHECKING:
    import ssl

    from .broker.sasl.client import ClientMechanism

OAUTHBEARER: Final = "OAUTHBEARER"
NONCE_BYTES: Final = 20
ClientName = Literal["kafka-python", "aiokafka", "confluent", "java", "spark"]


class Access(NamedTuple):
    """What a listener wants of its clients; without arguments nothing, as with PLAINTEXT."""

    authority: str | None = None
    """The path of a PEM file with the authority of the broker's certificate; None: no TLS."""
    mechanism: str | None = None
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER; None: no SASL."""
    username: str = ""
    password: str = ""
    """Nothing for OAUTHBEARER, whose tokens are unsecured ones."""

    @property
    def protocol(self) -> str:
        """The security protocol."""
        transport = "PLAINTEXT" if self.authority is None else "SSL"
        return transport if self.mechanism is None else f"SASL_{transport}"

    def tls_context(self) -> "ssl.SSLContext | None":
        """How Python speaks TLS; None: not at all."""
        if self.authority is None:
            return None
        import ssl  # only where TLS is used

        return ssl.create_default_context(cafile=self.authority)

    def begin_login(self) -> "ClientMechanism":
        """Begin a login by the mechanism."""
        from .broker.sasl.client_mechanisms import logins_of

        assert self.mechanism is not None
        if self.mechanism == OAUTHBEARER:
            from .broker.sasl.client_oauthbearer import OAuthBearerClient
            from .token_providers import new_token

            return OAuthBearerClient(new_token(self.username))
        nonce = partial(secrets.token_urlsafe, NONCE_BYTES)
        return logins_of(self.mechanism, self.username, self.password, nonce)()

    def config(self, client: "ClientName", bootstrap_servers: str) -> "ClientConfig":
        """The configuration of a client.  Raises: ValueError for an unknown client."""
        return client_config(client, bootstrap_servers, self)


OPEN: Final = Access()


class PythonClientConfig(TypedDict):
    """Keyword arguments of the clients of kafka-python and aiokafka."""

    bootstrap_servers: str
    security_protocol: NotRequired[str]
    ssl_cafile: NotRequired[str]
    """For kafka-python."""
    ssl_context: NotRequired["ssl.SSLContext"]
    """For aiokafka, and for both clients of brokers that the fixture has not started."""
    sasl_mechanism: NotRequired[str]
    sasl_plain_username: NotRequired[str]
    sasl_plain_password: NotRequired[str]
    sasl_oauth_token_provider: NotRequired[object]


# The names of librdkafka and Java are the same, but for those of certificates and logins.
PropertiesConfig = TypedDict(
    "PropertiesConfig",
    {
        "bootstrap.servers": str,
        "security.protocol": NotRequired[str],
        "ssl.ca.location": NotRequired[str],
        "ssl.truststore.type": NotRequired[str],
        "ssl.truststore.location": NotRequired[str],
        "sasl.mechanism": NotRequired[str],
        "sasl.username": NotRequired[str],
        "sasl.password": NotRequired[str],
        "sasl.jaas.config": NotRequired[str],
        "enable.sasl.oauthbearer.unsecure.jwt": NotRequired[str],
        "sasl.oauthbearer.config": NotRequired[str],
    },
)
SparkConfig = TypedDict(
    "SparkConfig",
    {
        "kafka.bootstrap.servers": str,
        "kafka.security.protocol": NotRequired[str],
        "kafka.ssl.truststore.type": NotRequired[str],
        "kafka.ssl.truststore.location": NotRequired[str],
        "kafka.sasl.mechanism": NotRequired[str],
        "kafka.sasl.jaas.config": NotRequired[str],
    },
)
ClientConfig = PythonClientConfig | PropertiesConfig | SparkConfig


def client_config(
    client: ClientName, bootstrap_servers: str, access: Access = OPEN
) -> ClientConfig:
    """The configuration of a client.  Raises: ValueError for an unknown client."""
    match client:
        case "kafka-python":
            return _kafka_python(bootstrap_servers, access)
        case "aiokafka":
            return _aiokafka(bootstrap_servers, access)
        case "confluent":
            return _confluent(bootstrap_servers, access)
        case "java":
            return _java(bootstrap_servers, access)
        case "spark":
            return for_spark(_java(bootstrap_servers, access))
    raise no_client(client)


def for_spark(java: PropertiesConfig) -> SparkConfig:
    """The options of Spark's source and sink that stand for properties of a Java client."""
    return {f"kafka.{name}": value for name, value in java.items()}  # type: ignore[return-value]


def no_client(name: str) -> ValueError:
    """The error for an unknown client."""
    return ValueError(f"no client {name!r}: one of {', '.join(get_args(ClientName))}")


def _python(bootstrap_servers: str, access: Access) -> PythonClientConfig:
    config: PythonClientConfig = {"bootstrap_servers": bootstrap_servers}
    if access.protocol != "PLAINTEXT":
        config["security_protocol"] = access.protocol
    if access.mechanism is not None:
        config["sasl_mechanism"] = access.mechanism
        if access.mechanism != OAUTHBEARER:
            config["sasl_plain_username"] = access.username
            config["sasl_plain_password"] = access.password
    return config


def _kafka_python(bootstrap_servers: str, access: Access) -> PythonClientConfig:
    config = _python(bootstrap_servers, access)
    if access.authority is not None:
        config["ssl_cafile"] = access.authority
    if access.mechanism == OAUTHBEARER:
        from .token_providers import for_kafka_python, new_token

        provider = for_kafka_python(lambda: new_token(access.username))
        config["sasl_oauth_token_provider"] = provider
    return config


def _aiokafka(bootstrap_servers: str, access: Access) -> PythonClientConfig:
    config = _python(bootstrap_servers, access)
    if (context := access.tls_context()) is not None:
        config["ssl_context"] = context
    if access.mechanism == OAUTHBEARER:
        from .token_providers import for_aiokafka, new_token

        provider = for_aiokafka(lambda: new_token(access.username))
        config["sasl_oauth_token_provider"] = provider
    return config


def _confluent(bootstrap_servers: str, access: Access) -> PropertiesConfig:
    config: PropertiesConfig = {"bootstrap.servers": bootstrap_servers}
    if access.protocol != "PLAINTEXT":
        config["security.protocol"] = access.protocol
    if access.authority is not None:
        config["ssl.ca.location"] = access.authority
    if access.mechanism is not None:
        config["sasl.mechanism"] = access.mechanism
        if access.mechanism == OAUTHBEARER:
            config["enable.sasl.oauthbearer.unsecure.jwt"] = "true"
            config["sasl.oauthbearer.config"] = f"principal={access.username}"
        else:
            config["sasl.username"] = access.username
            config["sasl.password"] = access.password
    return config


def _java(bootstrap_servers: str, access: Access) -> PropertiesConfig:
    config: PropertiesConfig = {"bootstrap.servers": bootstrap_servers}
    if access.protocol != "PLAINTEXT":
        config["security.protocol"] = access.protocol
    if access.authority is not None:
        config["ssl.truststore.type"] = "PEM"
        config["ssl.truststore.location"] = access.authority
    if access.mechanism is not None:
        config["sasl.mechanism"] = access.mechanism
        options = (
            {"unsecuredLoginStringClaim_sub": access.username}
            if access.mechanism == OAUTHBEARER
            else {"username": access.username, "password": access.password}
        )
        config["sasl.jaas.config"] = jaas_text(access.mechanism, **options)
    return config
