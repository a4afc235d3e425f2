"""JSON Schemas of answers, in few words."""

from typing import Any, Final

Schema = dict[str, Any]

ANYTHING: Final[Schema] = {}
BOOLEAN: Final[Schema] = {"type": "boolean"}
INTEGER: Final[Schema] = {"type": "integer"}
NULL: Final[Schema] = {"type": "null"}
NUMBER: Final[Schema] = {"type": "number"}
STRING: Final[Schema] = {"type": "string"}


def array(items: Schema) -> Schema:
    """A list."""
    return {"type": "array", "items": items}


def members(**schemas: Schema) -> Schema:
    """An object with exactly these members."""
    return {
        "type": "object",
        "properties": schemas,
        "required": list(schemas),
        "additionalProperties": False,
    }


def mapping(values: Schema) -> Schema:
    """An object with any names, whose values are alike."""
    return {"type": "object", "additionalProperties": values}


def either(*schemas: Schema) -> Schema:
    """A value of any of these."""
    return {"anyOf": list(schemas)}


def one_of(*texts: str) -> Schema:
    """One of these texts."""
    return {"enum": list(texts)}


ERROR: Final = members(error=STRING)
NOTHING: Final = members()
