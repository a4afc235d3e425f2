"""Our messages as the JSON that Kafka's converters print, and what Kafka's classes make of them."""

import base64
import gzip
import json
import pkgutil
import re
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from odradek.protocol import messages
from odradek.protocol.schema import ArrayOf, FieldType, Message, Struct
from tests.kafka.java import run_program

VECTORS: Final = Path(__file__).parent.parent / "vectors"
VERSION: Final = "3.9.2"


class Recorded(NamedTuple):
    """One request between Kafka's brokers, and its answer."""

    api_key: int
    version: int
    request: dict[str, Any]
    response: dict[str, Any]
    receiver: str


def recorded() -> Iterator[Recorded]:
    """All that was recorded; a missing version is 0."""
    with gzip.open(VECTORS / "interbroker_requests.jsonl.gz", "rt") as lines:
        for line in lines:
            told = json.loads(line)
            header = told["requestHeader"]
            yield Recorded(
                header["requestApiKey"],
                header.get("requestApiVersion", 0),
                told["request"],
                told["response"],
                told["connection"].partition("-")[0],
            )


def snake(name: str) -> str:
    """Kafka's name of a field as ours."""
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def from_json(kind: type[Struct], told: dict[str, Any]) -> Any:
    """A message, or a struct of one. Of records only the size is told: they become zeros."""
    types = {field.name: field.type for field in kind.FIELDS}
    made: dict[str, Any] = {}
    for key, value in told.items():
        if key == "recordsSizeInBytes":
            made["records"] = bytes(value)
        else:
            name = snake(key)
            made[name] = _value(types[name], value)
    return kind(**made)


def _value(kind: FieldType, told: Any) -> Any:
    if told is None:
        return None
    if isinstance(kind, ArrayOf):
        return [_value(kind.element, element) for element in told]
    if not isinstance(kind, str):
        return from_json(kind, told)
    if kind == "uuid":
        return base64.urlsafe_b64decode(told + "==")
    if kind in ("bytes", "records"):
        return base64.b64decode(told)
    return told


def request_class(api_key: int) -> type[Message]:
    """The class of an API's requests."""
    return _class(api_key, "Request")


def response_class(api_key: int) -> type[Message]:
    """The class of an API's answers."""
    return _class(api_key, "Response")


def is_declared(api_key: int) -> bool:
    """Whether the messages of an API are."""
    return api_key in _modules()


def _modules() -> dict[int, str]:
    names = [module.name for module in pkgutil.iter_modules(messages.__path__)]
    return {int(name[1:].partition("_")[0]): name for name in names}


def _class(api_key: int, kind: str) -> type[Message]:
    module = import_module(f"{messages.__name__}.{_modules()[api_key]}")
    name = module.__name__.rpartition(".")[2].partition("_")[2].replace("_", "")
    (found,) = (c for n, c in vars(module).items() if n.lower() == name + kind.lower())
    return cast("type[Message]", found)


class Asked(NamedTuple):
    """A message for Kafka's classes."""

    api_key: int
    version: int
    kind: str  # "request" or "response"
    content: str  # JSON, or base64


def by_kafka(direction: str, asked: Sequence[Asked]) -> list[str]:
    """Have messages decoded (base64 -> JSON) or encoded (JSON -> base64).  Raises: JavaFailed."""
    lines = [f"{direction}\t{a.api_key}\t{a.version}\t{a.kind}\t{a.content}\n" for a in asked]
    return run_program(VERSION, "Messages", stdin="".join(lines).encode()).stdout.splitlines()


def with_records(told: Any) -> Any:
    """The JSON with records (zeros) in the place of their size, as Kafka's converters read it."""
    if isinstance(told, list):
        return [with_records(element) for element in told]
    if not isinstance(told, dict):
        return told
    made = {key: with_records(value) for key, value in told.items() if key != "recordsSizeInBytes"}
    if "recordsSizeInBytes" in told:
        made["records"] = base64.b64encode(bytes(told["recordsSizeInBytes"])).decode()
    return made
