"""Requests with many elements in one of their arrays."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from odradek.protocol.schema import ArrayOf, Field, FieldType, Message, Struct

TOPICS: Final = ("t0", "t1")
"""The topics that the requests name and that exist; the others do not."""
FIXED: Final = {
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "member_id": "",
    "group_instance_id": None,
    "iterations": 1,
    "validate_only": True,
}
"""So that fewer requests are refused before their elements are looked at."""
Path = tuple[str, ...]


def paths_of_arrays(kind: type[Struct], version: int, to: Path = ()) -> Iterator[Path]:
    """The names of the fields that lead to each array of a message."""
    for field in kind.FIELDS:
        if version in field.versions and isinstance(field.type, ArrayOf):
            path = (*to, field.name)
            yield path
            if isinstance(field.type.element, type):
                yield from paths_of_arrays(field.type.element, version, path)


@dataclass(frozen=True, slots=True)
class Large:
    """Makes requests of one version with `count` elements at `path`, which are equal or not."""

    version: int
    path: Path
    count: int
    are_equal: bool

    def make(self, kind: type[Message]) -> Message:
        """The request."""
        made = self._struct(kind, 1, self.path)
        assert isinstance(made, Message)
        return made

    def _struct(self, kind: type[Struct], number: int, path: Path) -> Struct:
        fields = (field for field in kind.FIELDS if self.version in field.versions)
        return kind(**{field.name: self._field(field, number, path) for field in fields})

    def _field(self, field: Field, number: int, path: Path) -> Any:
        if field.name in FIXED:
            return FIXED[field.name]
        if not isinstance(field.type, ArrayOf):
            return self._value(field.type, number, ())
        element = field.type.element
        if path[:1] != (field.name,):
            return [self._value(element, number, ())]
        if len(path) > 1:
            return [self._value(element, number, path[1:])]
        numbers = [1] * self.count if self.are_equal else range(self.count)
        return [self._value(element, each, ()) for each in numbers]

    def _value(self, kind: FieldType, number: int, path: Path) -> Any:
        assert not isinstance(kind, ArrayOf)
        if not isinstance(kind, str):
            return self._struct(kind, number, path)
        others: dict[str, Any] = {
            "string": f"t{number}",
            "bool": False,
            "float64": 1.0,
            "uuid": number.to_bytes(16, "big"),
            "bytes": b"x",
            "records": b"",
            "int8": 2,  # a topic, where it is the type of a resource
        }
        return others.get(kind, number % 30_000)  # fits into 16 bits, too
