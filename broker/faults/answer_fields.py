"""Fields that a rule sets in a response: what they may be, and setting them.

Values are those of JSON: a struct is an object, an array a list, a uuid and bytes are texts.
"""

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from odradek.protocol.schema import ArrayOf, Field, FieldType, Struct

from ..handlers import Api
from .targets import Path, Target, TopicName, path_of, target_of

INTEGER_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
UINT16_END: Final = 1 << 16
CODES_BY_ERROR: Final = "error_code"
VALUES_MAX: Final = 1000
"""In one list of a rule."""


def check_fields(api: Api, fields: Mapping[str, Any]) -> str | None:
    """What is wrong with the fields, in one sentence; None: nothing."""
    if not fields:
        return "no field is given"
    for name, value in fields.items():
        declared = _declared(api, name)
        if declared is None:
            return f"{api.name}Response has no field {ascii(name)[:60]}"
        if name == CODES_BY_ERROR:
            return f"{name} is set by error"
        try:
            _built(declared, value)
        except ValueError as error:
            return f"{name}: {error}"
    return None


def _declared(api: Api, name: str) -> Field | None:
    """A field of a response, or of what its lists have."""
    for version in range(api.last_of_v2, api.first - 1, -1):
        response: type[Struct] = api.response  # type: ignore[assignment]
        levels = [level.element for level in path_of(response, version)]
        for struct in (response, *levels):
            field = None if struct is None else _field(struct, name, version)
            if field is not None:
                return field
    return None


def _field(struct: type[Struct], name: str, version: int) -> Field | None:
    for field in struct.FIELDS:
        if field.name == name and version in field.versions:
            return field
    return None


def set_fields(
    response: Struct,
    version: int,
    fields: Mapping[str, Any],
    selects: Callable[[Target], bool],
    base: Target,
    topic_name: TopicName,
) -> None:
    """Set each field where the response has it: at the top, or else in the outermost of its lists,
    there in each element that is selected.  A version may lack a field.
    """
    path = path_of(type(response), version)
    for name, value in fields.items():
        field = _field(type(response), name, version)
        if field is not None:
            setattr(response, name, _built(field, value))
            continue
        for depth, level in enumerate(path):
            field = None if level.element is None else _field(level.element, name, version)
            if field is not None:
                for target, element in elements(response, path[: depth + 1], base, topic_name):
                    if selects(target):
                        setattr(element, name, _built(field, value))
                break


def elements(
    holder: Struct, path: Path, target: Target, topic_name: TopicName
) -> Iterator[tuple[Target, Any]]:
    """All elements of the last list of a path, and what each is about."""
    level, inner = path[0], path[1:]
    for element in getattr(holder, level.field) or ():
        named = target_of(level, element, target, holder, topic_name)
        if inner:
            yield from elements(element, inner, named, topic_name)
        else:
            yield named, element


def _built(field: Field, value: Any) -> Any:
    """The value of a field.  Raises: ValueError, with a sentence."""
    if value is None:
        if field.nullable.last < field.nullable.first:
            raise ValueError("it can't be null")
        return None
    return _of_type(field.type, value)


def _of_type(kind: FieldType, value: Any) -> Any:
    if isinstance(kind, ArrayOf):
        if not isinstance(value, list) or len(value) > VALUES_MAX:
            raise ValueError(f"it must be a list of at most {VALUES_MAX}")
        return [_of_type(kind.element, each) for each in value]
    if not isinstance(kind, str):
        return _struct(kind, value)
    if kind in INTEGER_BITS:
        bound = 1 << (INTEGER_BITS[kind] - 1)
        return _integer(value, -bound, bound - 1)
    match kind:
        case "uint16":
            return _integer(value, 0, UINT16_END - 1)
        case "bool" if isinstance(value, bool):
            return value
        case "float64" if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case "string" if isinstance(value, str):
            value.encode()
            return value
        case "bytes" if isinstance(value, str):
            return _bytes(value)
        case "uuid" if isinstance(value, str):
            return _uuid(value)
        case "records":
            raise ValueError("records can't be given: produce them")
    raise ValueError(f"it must be of Kafka's type {kind}")


def _integer(value: Any, first: int, last: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not first <= value <= last:
        raise ValueError(f"it must be a whole number from {first} to {last}")
    return value


def _bytes(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise ValueError("bytes are given in base64") from None


def _uuid(text: str) -> bytes:
    try:
        return UUID(text).bytes
    except ValueError:
        raise ValueError("it must be a uuid") from None


def _struct(kind: type[Struct], value: Any) -> Struct:
    if not isinstance(value, Mapping):
        raise ValueError("it must be an object")
    declared = {field.name: field for field in kind.FIELDS}
    built = kind()
    for name, each in value.items():
        if name not in declared:
            raise ValueError(f"{kind.__name__} has no field {ascii(name)[:60]}")
        setattr(built, name, _built(declared[name], each))
    return built
