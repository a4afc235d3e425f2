"""Properties of clients, as users of Java, librdkafka and kafka-python write them.

All are kept under librdkafka's names, which are Kafka's where both have a property.  `produce` and
`consume` hand them to librdkafka as they are; the other commands translate them for kafka-python.
Sources: Kafka's documentation of client configurations, librdkafka's CONFIGURATION.md.
"""

from collections.abc import Mapping
from typing import Final

from odradek.pipeline.properties import PROTOCOLS

from .client_sasl import without_jaas
from .client_tls import TLS_PROPERTIES, without_java_stores

# kafka-python's names that differ by more than `_` for `.`.
_FROM_KAFKA_PYTHON: Final = {
    "bootstrap_timeout_ms": "socket.connection.setup.timeout.ms",
    "sasl_plain_username": "sasl.username",
    "sasl_plain_password": "sasl.password",
    "ssl_cafile": "ssl.ca.location",
    "ssl_certfile": "ssl.certificate.location",
    "ssl_keyfile": "ssl.key.location",
    "ssl_password": "ssl.key.password",
    "ssl_crlfile": "ssl.crl.location",
}
# Other names that Java's clients or librdkafka have for a property.
_ALIASES: Final = {
    "compression.codec": "compression.type",
    "delivery.timeout.ms": "message.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "metadata.broker.list": "bootstrap.servers",
    "queue.buffering.max.ms": "linger.ms",
    "request.required.acks": "acks",
    "sasl.mechanisms": "sasl.mechanism",
}
_ASSIGNORS: Final = {
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "CooperativeStickyAssignor": "cooperative-sticky",
}
_TO_KAFKA_PYTHON: Final = {
    **{there: here for here, there in _FROM_KAFKA_PYTHON.items() if not here.startswith("ssl_")},
    "socket.timeout.ms": "request_timeout_ms",
}


def canonical(given: Mapping[str, str]) -> dict[str, str]:
    """Properties under librdkafka's names.  Raises: ValueError with a sentence."""
    named: dict[str, str] = {}
    for name, value in given.items():
        if named.setdefault(_canonical_name(name), value) != value:
            raise ValueError(f"{name} has two values, under two names")
    if "ssl_check_hostname" in given:
        wanted = named.pop("ssl.check.hostname").lower() != "false"
        named["ssl.endpoint.identification.algorithm"] = "https" if wanted else "none"
    if named.get("ssl.endpoint.identification.algorithm") == "":  # Java's way to switch it off
        named["ssl.endpoint.identification.algorithm"] = "none"
    if "security.protocol" in named:
        named["security.protocol"] = protocol = named["security.protocol"].upper()
        if protocol not in PROTOCOLS:
            raise ValueError(f"security.protocol={protocol} is none of {', '.join(PROTOCOLS)}")
    if named.get("auto.offset.reset") == "none":
        named["auto.offset.reset"] = "error"
    if assignors := named.get("partition.assignment.strategy"):
        names = (name.strip().rpartition(".")[2] for name in assignors.split(","))
        named["partition.assignment.strategy"] = ",".join(_ASSIGNORS.get(n, n) for n in names)
    return without_java_stores(without_jaas(named))


def kafka_python_name(name: str) -> str | None:
    """kafka-python's name of a property; None if `tls_context` takes it."""
    return None if name in TLS_PROPERTIES else _TO_KAFKA_PYTHON.get(name, name.replace(".", "_"))


def _canonical_name(name: str) -> str:
    if name in _FROM_KAFKA_PYTHON:
        return _FROM_KAFKA_PYTHON[name]
    dotted = name if "." in name else name.replace("_", ".")
    return _ALIASES.get(dotted, dotted)
