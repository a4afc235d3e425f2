"""Properties of Kafka's Java clients, read from files and translated for kafka-python."""

import os
import re
from collections.abc import Mapping
from typing import Final

from odradek.jaas import JaasError, parse_jaas_for

from .errors import PipelineError

_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# The key ends at the first =, : or blank that is not escaped.
_ENTRY: Final = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
# Spark refuses these only once a job has begun, and names options that nobody gave.
_OF_SPARK: Final = (
    *("auto.offset.reset", "enable.auto.commit", "interceptor.classes"),
    *("key.deserializer", "value.deserializer", "key.serializer", "value.serializer"),
)
_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")


def read_properties(path: str) -> dict[str, str]:
    """Read a file as Kafka's tools take it for --command-config.  Raises: PipelineError."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse_properties(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} cannot be read as a properties file: {error}") from error


def read_command_config(path: str) -> dict[str, str]:
    """The same, but refuses properties that Spark sets itself.  Raises: PipelineError."""
    properties = read_properties(path)
    if refused := [name for name in _OF_SPARK if name in properties]:
        raise PipelineError(f"{path} sets {', '.join(refused)}: Spark decides that, take it out")
    return properties


def parse_properties(text: str) -> dict[str, str]:
    """Parse as java.util.Properties does: comments, continued lines, escapes."""
    properties = {}
    lines = iter(text.splitlines())
    for line in lines:
        line = line.lstrip()
        if not line or line[0] in "#!":
            continue
        while _is_continued(line):
            line = line[:-1] + next(lines, "").lstrip()
        entry = _ENTRY.fullmatch(line)
        assert entry is not None  # both groups may be empty
        properties[_unescaped(entry[1])] = _unescaped(entry[2])
    return properties


def client_settings(bootstrap_servers: str, properties: Mapping[str, str]) -> dict[str, object]:
    """The settings with which kafka-python's clients connect.  Raises: PipelineError."""
    return {**python_settings(properties), "bootstrap_servers": bootstrap_servers.split(",")}


def python_settings(properties: Mapping[str, str]) -> dict[str, object]:
    """The properties that kafka-python needs to connect; the rest only tune Spark's clients.

    Raises: PipelineError for settings that kafka-python does not support.
    """
    settings: dict[str, object] = {}
    if protocol := _protocol(properties):
        settings["security_protocol"] = protocol
    if client_id := properties.get("client.id"):
        settings["client_id"] = client_id
    settings.update(_sasl_settings(properties))
    settings.update(_ssl_settings(properties))
    return settings


def check_ssl_files(properties: Mapping[str, str]) -> None:
    """Check that the stores for TLS are readable on this machine.  Raises: PipelineError."""
    if not _protocol(properties).endswith("SSL"):
        return
    for store in ("truststore", "keystore"):
        location = properties.get(f"ssl.{store}.location")
        if location is not None and not os.access(location, os.R_OK):
            raise PipelineError(
                f"ssl.{store}.location={location} is no file that can be read on this machine:"
                " check the path, and the rights of the user of the job"
            )


def _protocol(properties: Mapping[str, str]) -> str:
    """In upper case: Kafka's clients take any case, but kafka-python would connect unprotected."""
    protocol = properties.get("security.protocol", "")
    if protocol and protocol.upper() not in PROTOCOLS:
        raise PipelineError(
            f"security.protocol={protocol} is none: use one of {', '.join(PROTOCOLS)}"
        )
    return protocol.upper()


def _sasl_settings(properties: Mapping[str, str]) -> dict[str, object]:
    if not _protocol(properties).startswith("SASL"):
        return {}
    mechanism = properties.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _MECHANISMS:
        raise PipelineError(
            f"sasl.mechanism={mechanism} is not supported here: use {', '.join(_MECHANISMS)}"
        )
    settings: dict[str, object] = {"sasl_mechanism": mechanism}
    if mechanism == "GSSAPI":
        settings["sasl_kerberos_service_name"] = properties.get(
            "sasl.kerberos.service.name", "kafka"
        )
        return settings
    try:
        options = parse_jaas_for(mechanism, properties.get("sasl.jaas.config", ""))
    except JaasError as error:
        raise PipelineError(str(error)) from None
    if not {"username", "password"} <= options.keys():
        raise PipelineError(
            'sasl.jaas.config must give username="…" and password="…" of the login module'
        )
    return {
        **settings,
        "sasl_plain_username": options["username"],
        "sasl_plain_password": options["password"],
    }


def _ssl_settings(properties: Mapping[str, str]) -> dict[str, object]:
    settings: dict[str, object] = {}
    for store, name in (("truststore", "ssl_cafile"), ("keystore", "ssl_certfile")):
        if f"ssl.{store}.certificates" in properties or f"ssl.{store}.key" in properties:
            raise PipelineError(
                f"certificates inside the properties are not supported:"
                f" put them in a file and set ssl.{store}.location and ssl.{store}.type=PEM"
            )
        location = properties.get(f"ssl.{store}.location")
        if location is None:
            continue
        kind = properties.get(f"ssl.{store}.type", "JKS")
        if kind.upper() != "PEM":
            raise PipelineError(
                f"ssl.{store}.type={kind} cannot be read by Python:"
                f" convert it to PEM (openssl, keytool) and set ssl.{store}.type=PEM"
            )
        settings[name] = location
    if password := properties.get("ssl.key.password"):
        settings["ssl_password"] = password
    if properties.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl_check_hostname"] = False
    return settings


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescaped(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return _ESCAPES.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text)
