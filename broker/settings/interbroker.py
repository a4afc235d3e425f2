"""Settings of brokers as members of a cluster: their identity and communication."""

from typing import Any, Final, Protocol

from .declaration import BOOLEAN, INT, LIST, LONG, STRING, ConfigError, Setting, Value

PROTOCOL_VERSIONS: Final = ("3.9", "3.9-IV0")
DRAWN_BROKER_ID: Final = -1
"""As broker.id: use the id in the data directory, or else generate one."""


DEFAULTS_WITH_ZOOKEEPER: Final[dict[str, Value]] = {
    "broker.id": DRAWN_BROKER_ID,
    "group.coordinator.rebalance.protocols": ("classic",),
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "transaction.state.log.min.isr": 2,
}
"""Kafka's defaults, used with ZooKeeper where Odradek's are meant for a single broker."""


BETWEEN_BROKERS: Final = (
    "inter.broker.listener.name",
    "security.inter.broker.protocol",
    "control.plane.listener.name",
    "odradek.broker.listeners.accepted",
)
"""The settings that choose a listener for brokers."""


class ByName(Protocol):
    """Settings by Kafka's names."""

    def __getitem__(self, name: str, /) -> Any:
        """The value of a setting."""
        ...


def check_broker_id(values: ByName) -> None:
    """Check broker.id.  Raises: ConfigError."""
    broker_id = values["broker.id"]
    if not values["broker.id.generation.enable"]:
        if broker_id < 0:
            raise ConfigError(
                "broker.id must be at least 0 while broker.id.generation.enable=false"
            )
    elif broker_id > values["reserved.broker.max.id"]:
        raise ConfigError(
            f"broker.id={broker_id} must not be above reserved.broker.max.id="
            f"{values['reserved.broker.max.id']}: larger ones are given out by the store; raise "
            "that, or set broker.id.generation.enable=false"
        )


def _protocol_version(text: str) -> str | None:
    if text in PROTOCOL_VERSIONS:
        return None
    return f"{' or '.join(PROTOCOL_VERSIONS)}, as only the protocol of Kafka 3.9 is built"


class InterBrokerSettings:
    """A broker's identity in the cluster, and its requests to other brokers."""

    broker_id_generation_enable = Setting(
        "broker.id.generation.enable",
        BOOLEAN,
        True,
        "Generate a broker.id through the store if broker.id is -1 and the data directory has "
        "none.",
    )
    reserved_broker_max_id = Setting(
        "reserved.broker.max.id",
        INT,
        1000,
        "Generated broker ids are larger than this. A configured broker.id must not be, unless "
        "broker.id.generation.enable is false.",
        at_least=0,
    )
    broker_rack = Setting(
        "broker.rack",
        STRING.or_none,
        None,
        "The rack of this broker; replicas are spread over racks.",
    )
    inter_broker_listener_name = Setting(
        "inter.broker.listener.name",
        STRING.or_none,
        None,
        "The listener for connections between brokers; one of advertised.listeners. Unset: the "
        "one with the name of security.inter.broker.protocol.",
    )
    security_inter_broker_protocol = Setting(
        "security.inter.broker.protocol",
        STRING,
        "PLAINTEXT",
        "The security protocol between brokers, if inter.broker.listener.name is not set.",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    )
    control_plane_listener_name = Setting(
        "control.plane.listener.name",
        STRING.or_none,
        None,
        "A separate listener for requests between the controller and the brokers; one of "
        "advertised.listeners. Unset: the listener between brokers.",
    )
    odradek_broker_listeners_accepted = Setting(
        "odradek.broker.listeners.accepted",
        LIST,
        (),
        "Further listeners on which requests between brokers are accepted, while brokers move from "
        "one listener to another by rolling restarts. Kafka accepts them on all.",
    )
    inter_broker_protocol_version = Setting(
        "inter.broker.protocol.version",
        STRING,
        "3.9-IV0",
        "The Kafka version whose requests brokers send to each other. All brokers of a cluster "
        "need the same.",
        check=_protocol_version,
    )
    controlled_shutdown_enable = Setting(
        "controlled.shutdown.enable",
        BOOLEAN,
        True,
        "Before this broker stops, let the controller move its leadership to other brokers.",
    )
    controlled_shutdown_max_retries = Setting(
        "controlled.shutdown.max.retries",
        INT,
        3,
        "The number of attempts at this before the broker stops anyway.",
    )
    controlled_shutdown_retry_backoff_ms = Setting(
        "controlled.shutdown.retry.backoff.ms",
        LONG,
        5_000,
        "How long to wait between these attempts.",
    )
    controller_socket_timeout_ms = Setting(
        "controller.socket.timeout.ms",
        INT,
        30_000,
        "How long the controller waits for a broker's answer, and how long a stopping broker "
        "waits for the controller's.",
    )
    request_timeout_ms = Setting(
        "request.timeout.ms",
        INT,
        30_000,
        "How long this broker waits for the controller's answer to its other requests.",
    )
    socket_connection_setup_timeout_ms = Setting(
        "socket.connection.setup.timeout.ms",
        LONG,
        10_000,
        "How long this broker waits for a connection that it opens to another one.",
    )
    socket_connection_setup_timeout_max_ms = Setting(
        "socket.connection.setup.timeout.max.ms",
        LONG,
        30_000,
        "The maximum of that time, which doubles with every consecutive failure.",
    )
