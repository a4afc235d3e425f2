"""All declared messages, and a Hypothesis strategy for the values of each version."""

import functools
import importlib
import pkgutil
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from odradek.protocol import consumer_protocol, group_records, messages, transaction_records
from odradek.protocol.framing import RequestHeader, ResponseHeader
from odradek.protocol.schema import MISSING, ArrayOf, Field, FieldType, Message, Struct

INTEGERS = {
    "int8": (-(1 << 7), (1 << 7) - 1),
    "int16": (-(1 << 15), (1 << 15) - 1),
    "uint16": (0, (1 << 16) - 1),
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}
UNKNOWN_TAG_FIRST = 1000


def message_classes() -> list[type[Message]]:
    """Every message on the wire, the two headers, and what is kept in internal topics."""
    kept = [
        *_declared_in(consumer_protocol),
        *_declared_below(group_records),
        *_declared_in(transaction_records),
    ]
    return [RequestHeader, ResponseHeader, *requests_and_responses(), *kept]


def requests_and_responses() -> list[type[Message]]:
    """Every message in protocol/messages."""
    return _declared_below(messages)


def _declared_below(package: ModuleType) -> list[type[Message]]:
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return [message for module in modules for message in _declared_in(module)]


def _declared_in(module: ModuleType) -> list[type[Message]]:
    return [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Message) and value is not Message
    ]


def message_versions() -> list[Any]:
    """Pairs of message and version."""
    return [
        (cls, version)
        for cls in message_classes()
        for version in range(cls.VERSIONS.first, cls.VERSIONS.last + 1)
    ]


def layout(cls: type[Message], version: int) -> Any:
    """Return what the bytes of a version depend on."""
    return _layout_of_struct(cls, version, version in cls.FLEXIBLE)


def _layout_of_struct(cls: type[Struct], version: int, flexible: bool) -> Any:
    fields = [field for field in cls.FIELDS if version in field.versions]
    return flexible, [
        (
            field.name,
            version in field.nullable,
            field.is_tagged(version),
            _layout_of_type(field.type, version, flexible),
        )
        for field in fields
    ]


def _layout_of_type(type: FieldType, version: int, flexible: bool) -> Any:
    if isinstance(type, ArrayOf):
        return _layout_of_type(type.element, version, flexible)
    return type if isinstance(type, str) else _layout_of_struct(type, version, flexible)


@functools.cache  # building one takes longer than drawing from it
def values(cls: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Messages that `version` can carry whole: fields that it lacks have their default."""
    return _structs(cls, version, version in cls.FLEXIBLE)


def _structs(cls: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    fields = {
        field.name: _field(field, version, flexible)
        for field in cls.FIELDS
        if version in field.versions
    }
    tags: st.SearchStrategy[dict[int, bytes] | None] = st.none()
    if flexible:
        tag = st.integers(UNKNOWN_TAG_FIRST, UNKNOWN_TAG_FIRST + 300)
        tags = st.none() | st.dictionaries(tag, st.binary(max_size=200), min_size=1, max_size=2)

    def build(tagged_fields: dict[int, bytes] | None, **given: Any) -> Struct:
        made = cls(**given)
        made.tagged_fields = tagged_fields
        return made

    return st.builds(build, tagged_fields=tags, **fields)


def _field(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    value = _type(field.type, version, flexible)
    if version in field.nullable:
        value = st.none() | value
    if field.default is not MISSING and field.type != "records":
        value = st.just(field.default) | value if field.default is not None else value
    return value


def _type(type: FieldType, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(type, ArrayOf):
        return st.lists(_type(type.element, version, flexible), max_size=3)
    if not isinstance(type, str):
        return _structs(type, version, flexible)
    if type in INTEGERS:
        first, last = INTEGERS[type]
        return st.integers(first, last)
    simple: dict[str, st.SearchStrategy[Any]] = {
        "bool": st.booleans(),
        "float64": st.floats(allow_nan=False),
        "uuid": st.binary(min_size=16, max_size=16),
        "string": st.text(max_size=20) | st.text(min_size=130, max_size=140),
        "bytes": st.binary(max_size=20),
        "records": st.binary(max_size=300),
    }
    return simple[type]
