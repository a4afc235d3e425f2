"""Typed access to the JSON object in a znode, which any client may have written."""

import json
from collections.abc import Iterator, Mapping
from typing import Final, TypeGuard

from .interface import CoordinationError

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class MalformedZnode(CoordinationError):
    """A znode's data is malformed."""


class Fields:
    """One JSON object.  Every reading method raises MalformedZnode, which names the field.

    A null field counts as absent, as in Kafka's decoders.
    """

    def __init__(self, what: str, values: Mapping[str, object]) -> None:
        self._what = what
        self._values = values

    def __contains__(self, key: str) -> bool:
        return self._values.get(key) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def int32(self, key: str, default: int | None = None) -> int:
        """A number."""
        return self._integer(key, default, INT32_MAX)

    def int64(self, key: str, default: int | None = None) -> int:
        """A number, or a string of digits."""
        value = self._values.get(key)
        if isinstance(value, str):
            return number(value, f"{self._what}: {key}", INT64_MAX)
        return self._integer(key, default, INT64_MAX)

    def text(self, key: str) -> str:
        """A string."""
        value = self._values.get(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a string")
        return value

    def mappings(self, key: str) -> "list[Fields]":
        """A list of objects."""
        return [self._object(key, value) for value in self._list(key)]

    def mapping(self, key: str) -> "Fields":
        """An object."""
        return self._object(key, self._values.get(key))

    def mapping_or_empty(self, key: str) -> "Fields":
        """An object; if absent, an empty one."""
        return self._object(key, self._values[key] if key in self else {})

    def int32s(self, key: str) -> tuple[int, ...]:
        """A list of numbers."""
        values = self._list(key)
        numbers = tuple(value for value in values if is_number(value, INT32_MAX))
        if len(numbers) != len(values):
            raise self._wrong(key, "a list of numbers")
        return numbers

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        values = self._list(key)
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) != len(values):
            raise self._wrong(key, "a list of strings")
        return texts

    def _integer(self, key: str, default: int | None, maximum: int) -> int:
        value = self._values.get(key)
        if value is None and default is not None:
            return default
        if not is_number(value, maximum):
            raise self._wrong(key, "a number")
        return value

    def _list(self, key: str) -> list[object]:
        value = self._values.get(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def _object(self, key: str, value: object) -> "Fields":
        if not isinstance(value, dict):
            raise self._wrong(key, "an object")
        return Fields(f"{self._what}: {key}", value)

    def _wrong(self, key: str, wanted: str) -> MalformedZnode:
        found = repr(self._values.get(key))[:100]
        return MalformedZnode(f"{self._what}: {key} is {found}, not {wanted}")


def is_number(value: object, maximum: int) -> TypeGuard[int]:
    """Whether a JSON value is an integer in range; JSON's true is not."""
    return type(value) is int and -maximum - 1 <= value <= maximum


def number(text: str, what: str, maximum: int = INT32_MAX) -> int:
    """Parse decimal digits.  Raises: MalformedZnode."""
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit() and len(digits) <= 19:
        value = int(text)
        if is_number(value, maximum):
            return value
    raise MalformedZnode(f"{what} is {text[:100]!r}, not a number")


def decode_object(what: str, data: bytes) -> Fields:
    """Decode the JSON object in a znode's data.  Raises: MalformedZnode."""
    try:
        values = json.loads(data)
        if b"\\u" in data:  # may hide half a surrogate pair, which no protocol field can carry
            json.dumps(values, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise MalformedZnode(f"{what} is not JSON: {error}") from error
    if not isinstance(values, dict):
        raise MalformedZnode(f"{what} is not a JSON object")
    return Fields(what, values)


def encode_object(values: Mapping[str, object]) -> bytes:
    """Encode JSON as Kafka does: no spaces, UTF-8."""
    return json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode()
