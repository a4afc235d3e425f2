"""The fields of requests: their declaration, and JSON or a query parsed by it.

A `Field` has a name, a kind and a meaning. What a request has beside the declared fields, or of
another type, is refused with a sentence. The OpenAPI document is made from the same declarations.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from odradek.durations import seconds_of
from odradek.spelling import did_you_mean

from .problems import Problem

Json = Any
"""What JSON can express."""
Schema = Mapping[str, Any]

QUERY_FIELDS_MAX: Final = 100
DELAY_S_MAX: Final = 3600
_REQUIRED: Final = object()


class Kind(NamedTuple):
    """A type of fields."""

    noun: str
    """What a valid value is: `a whole number`."""
    schema: Schema
    """The same in JSON Schema."""
    parse: Callable[[Json], Any]
    """Returns the value for the resource.  Raises: ValueError, with a sentence or without."""
    is_text: bool = False
    """Whether a text in a query is already a value."""


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError
    value.encode()  # half a surrogate pair is JSON, but no text
    return value


def _boolean(value: Json) -> bool:
    if not isinstance(value, bool):
        raise ValueError
    return value


TEXT: Final = Kind("text", {"type": "string"}, _text, is_text=True)
BOOLEAN: Final = Kind("true or false", {"type": "boolean"}, _boolean)
DURATION: Final = Kind(
    "a duration",
    {
        "type": ["string", "number"],
        "description": 'A duration: seconds as a number, or text such as "250ms", "60s", "5m".',
    },
    seconds_of,
)
"""The value is in seconds.  A query has it as `5`, `1.5` or `250ms`."""


def _delay(value: Json) -> float:
    seconds: float = DURATION.parse(value)
    if seconds > DELAY_S_MAX:
        raise ValueError(f"{value!r} is more than an hour")
    return seconds


DELAY: Final = Kind("a duration of at most an hour", DURATION.schema, _delay)


def whole(at_least: int, at_most: int) -> Kind:
    """A whole number between two bounds."""

    def parse(value: Json) -> int:
        if (
            isinstance(value, bool)
            or not isinstance(value, int)
            or not at_least <= value <= at_most
        ):
            raise ValueError
        return value

    schema = {"type": "integer", "minimum": at_least, "maximum": at_most}
    return Kind(f"a whole number from {at_least} to {at_most}", schema, parse)


def number(at_least: float, at_most: float) -> Kind:
    """A number between two bounds."""

    def parse(value: Json) -> float:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not at_least <= value <= at_most:
            raise ValueError
        return float(value)

    schema = {"type": "number", "minimum": at_least, "maximum": at_most}
    return Kind(f"a number from {at_least:g} to {at_most:g}", schema, parse)


def one_of(*texts: str) -> Kind:
    """One of these texts."""

    def parse(value: Json) -> str:
        if value not in texts:
            raise ValueError
        return str(value)

    return Kind(f"one of {', '.join(texts)}", {"enum": list(texts)}, parse, is_text=True)


def either(first: Kind, second: Kind) -> Kind:
    """A value of either kind."""

    def parse(value: Json) -> Any:
        try:
            return first.parse(value)
        except ValueError:
            return second.parse(value)

    schema = {"anyOf": [first.schema, second.schema]}
    noun = f"{first.noun} or {second.noun}"
    return Kind(noun, schema, parse, is_text=first.is_text or second.is_text)


def nullable(kind: Kind) -> Kind:
    """A value of this kind, or null."""

    def parse(value: Json) -> Any:
        return None if value is None else kind.parse(value)

    schema = {"anyOf": [kind.schema, {"type": "null"}]}
    return Kind(f"{kind.noun} or null", schema, parse, is_text=kind.is_text)


def list_of(kind: Kind, *, at_most: int) -> Kind:
    """A list of values of one kind."""

    def parse(value: Json) -> list[Any]:
        if not isinstance(value, list) or len(value) > at_most:
            raise ValueError
        return [kind.parse(item) for item in value]

    schema = {"type": "array", "items": kind.schema, "maxItems": at_most}
    return Kind(f"a list of at most {at_most}, each {kind.noun}", schema, parse)


def map_of(kind: Kind, *, at_most: int) -> Kind:
    """A JSON object whose values are of one kind."""

    def parse(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict) or len(value) > at_most:
            raise ValueError
        return {_text(name): kind.parse(item) for name, item in value.items()}

    schema = {"type": "object", "additionalProperties": kind.schema, "maxProperties": at_most}
    return Kind(f"an object whose values are {kind.noun}", schema, parse)


def pair_of(first: Kind, second: Kind) -> Kind:
    """A list of two values."""

    def parse(value: Json) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError
        return first.parse(value[0]), second.parse(value[1])

    items = [first.schema, second.schema]
    schema = {"type": "array", "prefixItems": items, "minItems": 2, "maxItems": 2}
    return Kind(f"a pair of {first.noun} and {second.noun}", schema, parse)


class Field(NamedTuple):
    """One field of a request's body or query."""

    name: str
    kind: Kind
    doc: str
    default: Any = _REQUIRED

    @property
    def is_required(self) -> bool:
        """Whether a request must have it."""
        return self.default is _REQUIRED


def object_of(*fields: Field) -> Kind:
    """A JSON object with declared fields."""

    def parse(value: Json) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise ValueError
        try:
            return _values(value, fields)
        except Problem as problem:
            raise ValueError(problem.sentence) from None

    names = ", ".join(field.name for field in fields)
    return Kind(f"an object with {names}", object_schema(fields), parse)


def object_schema(fields: Sequence[Field]) -> dict[str, Any]:
    """The JSON Schema of an object with these fields."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            field.name: {**field.kind.schema, "description": field.doc} for field in fields
        },
        "additionalProperties": False,
    }
    if required := [field.name for field in fields if field.is_required]:
        schema["required"] = required
    return schema


def parse_body(body: bytes, fields: Sequence[Field]) -> dict[str, Any]:
    """The values of all declared fields in a JSON object; no body is an empty object.

    Raises: Problem.
    """
    try:
        given = json.loads(
            body or b"{}", object_pairs_hook=_once_each, parse_constant=_refuse_constant
        )
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, f"the body is not JSON: {reason}") from None
    if not isinstance(given, dict):
        raise Problem(400, "the body is not a JSON object")
    return _values(given, fields)


def parse_query(query: str, fields: Sequence[Field]) -> dict[str, Any]:
    """The values of all declared fields in a query such as `partition=1&limit=10`.

    Raises: Problem.
    """
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, errors="strict", max_num_fields=QUERY_FIELDS_MAX
        )
    except ValueError:
        raise Problem(400, "the query is not text, or has too many fields") from None
    kinds = {field.name: field.kind for field in fields}
    given: dict[str, Json] = {}
    for name, text in pairs:
        if name in given:
            raise Problem(400, f"{name} is given twice")
        kind = kinds.get(name)
        given[name] = text if kind is None or kind.is_text else _json_of(text)
    return _values(given, fields)


def _json_of(text: str) -> Json:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return text


def _values(given: Mapping[str, Json], fields: Sequence[Field]) -> dict[str, Any]:
    names = [field.name for field in fields]
    for name in given:
        if name not in names:
            raise Problem(400, _unknown(name, names))
    return {field.name: _value(given, field) for field in fields}


def _unknown(name: str, names: Sequence[str]) -> str:
    shown = ascii(name[:100])
    if not names:
        return f"{shown} is not a field: this request has none"
    hint = did_you_mean(name, names)
    has = f"{hint} It has " if hint else ": "
    return f"{shown} is not a field of this request{has}{', '.join(names)}"


def _value(given: Mapping[str, Json], field: Field) -> Any:
    if field.name not in given:
        if field.is_required:
            raise Problem(400, f"{field.name} is missing: {field.kind.noun}")
        return field.default
    try:
        return field.kind.parse(given[field.name])
    except (ValueError, OverflowError) as error:
        own = isinstance(error, ValueError) and not isinstance(error, UnicodeError) and str(error)
        raise Problem(
            400, f"{field.name}: {own}" if own else f"{field.name} must be {field.kind.noun}"
        ) from None


def _once_each(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("an object has a key twice")
    return made


def _refuse_constant(text: str) -> Json:
    raise ValueError(f"{text} is not JSON")
