"""Files with which clients connect, each in the form that its library reads."""

import json
from collections.abc import Callable, Mapping

from odradek.broker.settings.properties import format_properties
from odradek.client_configs import OAUTHBEARER, ClientName


def client_files(config: Callable[[ClientName], Mapping[str, object]]) -> dict[str, str]:
    """The texts of the files for clients, by the ends of their names.

    kafka-python and aiokafka have none for OAUTHBEARER: they want an object that makes tokens.
    """
    java = config("java")
    files = {
        "java.properties": format_properties({name: str(value) for name, value in java.items()}),
        "librdkafka.conf": _lines(config("confluent")),
        "confluent.json": _json(config("confluent")),
        "spark.json": _json(config("spark")),
    }
    if java.get("sasl.mechanism") != OAUTHBEARER:
        kafka_python = config("kafka-python")
        files["kafka-python.json"] = _json(kafka_python)
        files["aiokafka.py"] = _aiokafka(kafka_python)
    return files


def _json(config: Mapping[str, object]) -> str:
    return json.dumps(config, indent=2) + "\n"


def _lines(config: Mapping[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in config.items())


def _aiokafka(config: Mapping[str, object]) -> str:
    """A module, because the client takes an object for TLS."""
    own = {name: value for name, value in config.items() if name != "ssl_cafile"}
    lines = [
        '"""The keyword arguments of the clients of aiokafka: AIOKafkaProducer(**config)."""',
        "",
        *(["import ssl", ""] if own != config else []),
        f"config = {json.dumps(own, indent=4)}",
    ]
    if own != config:
        context = f"ssl.create_default_context(cafile={config['ssl_cafile']!r})"
        lines.append(f'config["ssl_context"] = {context}')
    return "\n".join([*lines, ""])
