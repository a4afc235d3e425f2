"""Every declared message equals the message JSON in Apache Kafka's own jar, field by field."""

import json
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.schema import MISSING, ArrayOf, Field, FieldType, Message, Struct, Versions
from tests.kafka import jars

from .every_message import message_classes

pytestmark = pytest.mark.java

WIRE = ("3.9.2", "clients")
CONSUMER_GROUPS = ("4.3.1", "clients")  # the first complete ones
GROUP_RECORDS = ("4.3.1", "group-coordinator")
TRANSACTION_RECORDS = ("4.3.1", "transaction-coordinator")
TRANSACTIONS = ("4.3.1", "clients")
OF_TRANSACTIONS = {26, 27, 28, 66}
LAST = {0: 12, 27: 2}
"""The last version where the first and the last are those of different Kafkas."""
OWN_KEY_FIRST = 20_000  # Odradek's own APIs, which Kafka does not know


def authority(cls: type[Message]) -> tuple[str, str]:
    """The version and the jar whose JSON counts."""
    if cls.__module__.startswith("odradek.protocol.group_records"):
        return GROUP_RECORDS
    if cls.__module__ == "odradek.protocol.transaction_records":
        return TRANSACTION_RECORDS
    if cls.API_KEY in OF_TRANSACTIONS:
        return TRANSACTIONS
    return CONSUMER_GROUPS if cls.API_KEY in (68, 69) else WIRE


def kafka_json(name: str, version: str, jar_name: str) -> dict[str, Any]:
    jar = next(Path(jars.fetch(version)).glob(f"kafka-{jar_name}-{version}.jar"))
    with zipfile.ZipFile(jar) as archive:
        text = archive.read(f"common/message/{name}.json").decode()
    parsed: dict[str, Any] = json.loads(re.sub(r"(^|\s)//.*$", "", text, flags=re.MULTILINE))
    return parsed


def snake(name: str) -> str:
    name = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()


def type_name(declared: FieldType) -> str:
    if isinstance(declared, ArrayOf):
        return "[]" + type_name(declared.element)
    return declared if isinstance(declared, str) else declared.__name__


def is_named(declared: FieldType, message: str, expected: str) -> bool:
    """A struct carries its message's name in front where another one has taken its own."""
    name = type_name(declared)
    return expected in (name, name.replace(message, "", 1))


def nested(declared: FieldType) -> type[Struct] | None:
    element = declared.element if isinstance(declared, ArrayOf) else declared
    return None if isinstance(element, str | ArrayOf) else element


def json_default(field: dict[str, Any]) -> Any:
    """What a field that was not sent decodes to, by Kafka's rules."""
    given, type = field.get("default"), field["type"]
    if given == "null" or field.get("default", "") is None:
        return None
    if type == "bool":
        return str(given).lower() == "true"
    if type == "string":
        return given or ""
    if re.fullmatch(r"u?int\d+", type):
        return int(str(given), 0) if given is not None else 0
    return {"uuid": ZERO_UUID, "bytes": b"", "records": None, "float64": 0.0}.get(type, MISSING)


def assert_same_fields(
    ours: tuple[Field, ...], theirs: list[dict[str, Any]], common: dict[str, Any], where: str
) -> None:
    assert [field.name for field in ours] == [snake(field["name"]) for field in theirs], where
    for field, expected in zip(ours, theirs, strict=True):
        place = f"{where}.{field.name}"
        assert is_named(field.type, where.partition(".")[0], expected["type"]), place
        versions = expected.get("versions") or expected["taggedVersions"]
        assert field.versions == Versions.parse(versions), place
        assert field.nullable == Versions.parse(expected.get("nullableVersions", "none")), place
        assert field.tag == expected.get("tag"), place
        assert field.tagged == Versions.parse(expected.get("taggedVersions", "none")), place
        assert field.default == json_default(expected), place
        inner = nested(field.type)
        if inner is not None:
            fields = expected.get("fields") or common[inner.__name__]
            assert_same_fields(inner.FIELDS, fields, common, place)


KAFKAS = [cls for cls in message_classes() if cls.API_KEY < OWN_KEY_FIRST]


@pytest.mark.parametrize("cls", KAFKAS, ids=lambda cls: cls.__name__)
def test_declaration_equals_kafkas(cls: type[Message]) -> None:
    expected = kafka_json(cls.__name__, *authority(cls))
    if cls.API_KEY in LAST and authority(cls) in (WIRE, TRANSACTIONS):
        first = Versions.parse(kafka_json(cls.__name__, *WIRE)["validVersions"]).first
        assert (first, LAST[cls.API_KEY]) == cls.VERSIONS
    else:
        assert Versions.parse(expected["validVersions"]) == cls.VERSIONS
    assert Versions.parse(expected["flexibleVersions"]) == cls.FLEXIBLE
    assert expected.get("apiKey", -1) == cls.API_KEY
    common = {struct["name"]: struct["fields"] for struct in expected.get("commonStructs", [])}
    assert_same_fields(cls.FIELDS, expected["fields"], common, cls.__name__)
