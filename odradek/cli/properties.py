"""Properties of clients, as users of Java, librdkafka and kafka-python write them.

All are kept under librdkafka's names, which are Kafka's where both have a property.  `produce` and
`consume` hand them to librdkafka as they are; the other commands translate them for kafka-python.
Sources: Kafka's documentation of client configurations, librdkafka's CONFIGURATION.md.
"""

import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odradek.broker.settings.declaration import ConfigError
from odradek.broker.settings.properties import parse_properties
from odradek.jaas import parse_jaas
from odradek.pipeline.properties import PROTOCOLS

from .errors import CommandError

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
# What `tls_context` turns into one object for kafka-python.
_OF_TLS: Final = frozenset(
    {
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "enable.ssl.certificate.verification",
    }
)
_OF_JAVA_STORES: Final = {
    ("truststore", "location"): ("ssl.ca.location",),
    ("truststore", "certificates"): ("ssl.ca.pem",),
    ("keystore", "location"): ("ssl.certificate.location", "ssl.key.location"),
    ("keystore", "certificate.chain"): ("ssl.certificate.pem",),
    ("keystore", "key"): ("ssl.key.pem",),
}


def read_properties(path: str | Path) -> dict[str, str]:
    """The properties in a file of a Java client or of librdkafka.  Raises: CommandError."""
    try:
        given = parse_properties(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        reason = error.strerror if isinstance(error, OSError) else error  # without the path again
        raise CommandError(f"{path} can't be read as a properties file: {reason}") from None
    try:
        return canonical(given)
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from None


def canonical(given: Mapping[str, str]) -> dict[str, str]:
    """Properties under librdkafka's names.  Raises: ValueError with a sentence."""
    named = {_canonical_name(name): value for name, value in given.items()}
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
    return _without_java_stores(_without_jaas(named))


def kafka_python_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties but those that `tls_context` takes, under kafka-python's names."""
    return {
        _TO_KAFKA_PYTHON.get(name, name.replace(".", "_")): value
        for name, value in properties.items()
        if name not in _OF_TLS
    }


def tls_context(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """How Python speaks TLS with these properties; None if they ask for none.

    Raises: CommandError.
    """
    if not properties.get("security.protocol", "").endswith("SSL"):
        return None
    try:
        location = properties.get("ssl.ca.location")
        is_folder = location is not None and Path(location).is_dir()
        context = ssl.create_default_context(
            cafile=None if is_folder else location,
            capath=location if is_folder else None,
            cadata=properties.get("ssl.ca.pem"),
        )
        _load_own_certificate(context, properties)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise CommandError(f"the TLS properties can't be used: {error}") from None
    if properties.get("ssl.endpoint.identification.algorithm") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _canonical_name(name: str) -> str:
    if name in _FROM_KAFKA_PYTHON:
        return _FROM_KAFKA_PYTHON[name]
    dotted = name if "." in name else name.replace("_", ".")
    return _ALIASES.get(dotted, dotted)


def _without_jaas(properties: dict[str, str]) -> dict[str, str]:
    """User and password out of Java's sasl.jaas.config, which no other client reads."""
    config = properties.pop("sasl.jaas.config", None)
    if config is None:
        return properties
    options = parse_jaas(config).options
    if not {"username", "password"} <= options.keys():
        raise ValueError('sasl.jaas.config gives no username="…" and password="…"')
    found = {"sasl.username": options["username"], "sasl.password": options["password"]}
    return {**found, **properties}


def _without_java_stores(properties: dict[str, str]) -> dict[str, str]:
    """Java's PEM stores under librdkafka's names; of others only a PKCS12 key store remains."""
    for store in ("truststore", "keystore"):
        kind = properties.pop(f"ssl.{store}.type", None)
        location = properties.get(f"ssl.{store}.location")
        if store == "keystore" and location and _is_pkcs12(kind, location):
            continue
        if location is not None and (kind or "JKS").upper() != "PEM":
            raise ValueError(
                f"ssl.{store}.type={kind or 'JKS'} can be read by Java only:"
                f" convert {location} to PEM (keytool, openssl) and set ssl.{store}.type=PEM"
            )
        properties.pop(f"ssl.{store}.password", None)
    for (store, part), names in _OF_JAVA_STORES.items():
        if store == "keystore" and part == "location" and "ssl.keystore.password" in properties:
            continue
        if (value := properties.pop(f"ssl.{store}.{part}", None)) is not None:
            properties = {**dict.fromkeys(names, value), **properties}
    return properties


def _is_pkcs12(kind: str | None, location: str) -> bool:
    return kind.upper() == "PKCS12" if kind else location.endswith((".p12", ".pfx"))


def _load_own_certificate(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    password = properties.get("ssl.key.password")
    if location := properties.get("ssl.certificate.location"):
        context.load_cert_chain(location, properties.get("ssl.key.location"), password)
    elif chain := properties.get("ssl.certificate.pem"):
        # Python reads a key from a file only.
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(chain + "\n" + properties.get("ssl.key.pem", ""))
            file.flush()
            context.load_cert_chain(file.name, password=password)
    elif "ssl.keystore.location" in properties:
        raise ValueError("Python reads PEM key stores only: convert it with openssl pkcs12")
