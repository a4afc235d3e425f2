"""The configuration with which each client connects to a broker, under its own names."""

from typing import Literal, TypedDict, get_args

ClientName = Literal["kafka-python", "aiokafka", "confluent", "java", "spark"]


class PythonClientConfig(TypedDict):
    """Keyword arguments of the clients of kafka-python and aiokafka."""

    bootstrap_servers: str


# librdkafka's and Java's names are the same.
PropertiesConfig = TypedDict("PropertiesConfig", {"bootstrap.servers": str})
SparkConfig = TypedDict("SparkConfig", {"kafka.bootstrap.servers": str})
ClientConfig = PythonClientConfig | PropertiesConfig | SparkConfig


def client_config(client: ClientName, bootstrap_servers: str) -> ClientConfig:
    """The configuration of a client.  Raises: ValueError for an unknown client."""
    match client:
        case "kafka-python" | "aiokafka":
            return {"bootstrap_servers": bootstrap_servers}
        case "confluent" | "java":
            return {"bootstrap.servers": bootstrap_servers}
        case "spark":
            return {"kafka.bootstrap.servers": bootstrap_servers}
    raise ValueError(f"no client {client!r}: one of {', '.join(get_args(ClientName))}")
