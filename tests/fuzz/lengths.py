"""Where the lengths are in a message's bytes, and what a liar would write there.

This encodes by the declarations, independently of the compiled encoders.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from odradek.protocol.compiler import FIXED
from odradek.protocol.primitives import write_uvarint
from odradek.protocol.schema import MISSING, ArrayOf, Field, FieldType, Message, Struct

_SIZES: Final = {2: ">h", 4: ">i"}
UNENDING: Final = (b"\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x80\x01")


class Length(NamedTuple):
    """A length, count or number of tagged fields: its place, and what it belongs to."""

    start: int
    end: int
    is_varint: bool
    name: str

    def lies(self, left_bytes: int) -> Iterator[bytes]:
        """Lengths that can't be true of a message with `left_bytes` after this one."""
        top = (1 << 31) - 1
        if self.is_varint:
            for value in (left_bytes + 2, max(left_bytes + 2, 1 << 20), top, (1 << 32) - 1):
                lie = bytearray()
                write_uvarint(lie, value)
                yield bytes(lie)
            yield from UNENDING
        else:
            size_bytes = self.end - self.start
            top = (1 << (8 * size_bytes - 1)) - 1
            for value in (-2, -top - 1, min(left_bytes + 1, top), top):
                yield struct.pack(_SIZES[size_bytes], value)


class Layout:
    """The bytes of a message, and its lengths."""

    def __init__(self, message: Message, version: int) -> None:
        self.data = bytearray()
        self.lengths: list[Length] = []
        self._version = version
        self._flexible = version in message.FLEXIBLE
        self._struct(message, type(message).__name__)

    def with_lie(self, length: Length, lie: bytes) -> bytes:
        """The same with another length."""
        return bytes(self.data[: length.start] + lie + self.data[length.end :])

    def _struct(self, value: Struct, name: str) -> None:
        version = self._version
        for field in value.FIELDS:
            if field.is_inline(version):
                self._value(field.type, getattr(value, field.name), f"{name}.{field.name}", field)
        if self._flexible:
            tagged = [field for field in value.FIELDS if field.is_tagged(version)]
            given = [field for field in tagged if getattr(value, field.name) != _default(field)]
            self._length(len(given), 0, f"{name} tags", is_tags=True)
            for field in sorted(given, key=lambda field: field.tag or 0):
                write_uvarint(self.data, field.tag or 0)
                self._tagged(value, field, f"{name}.{field.name}")

    def _tagged(self, value: Struct, field: Field, name: str) -> None:
        start = len(self.data)
        self._value(field.type, getattr(value, field.name), name, field)
        size = bytearray()
        write_uvarint(size, len(self.data) - start)
        self.data[start:start] = size
        moved = len(size)
        for number, length in enumerate(self.lengths):
            if length.start >= start:
                self.lengths[number] = length._replace(
                    start=length.start + moved, end=length.end + moved
                )
        self.lengths.append(Length(start, start + moved, True, f"{name} size"))

    def _value(self, kind: FieldType, value: Any, name: str, field: Field | None = None) -> None:
        if isinstance(kind, ArrayOf):
            self._length(len(value), 4, name)
            for item in value:
                self._value(kind.element, item, f"{name}[]")
        elif not isinstance(kind, str):
            if field is not None and self._version in field.nullable:
                self.data.append(1)
            self._struct(value, name)
        elif kind in FIXED:
            self.data += struct.pack(">" + FIXED[kind], value)
        else:
            data = value.encode() if kind == "string" else value
            self._length(len(data), 2 if kind == "string" else 4, name)
            self.data += data

    def _length(self, value: int, size_bytes: int, name: str, *, is_tags: bool = False) -> None:
        start = len(self.data)
        if self._flexible:
            write_uvarint(self.data, value if is_tags else value + 1)
        else:
            self.data += struct.pack(_SIZES[size_bytes], value)
        self.lengths.append(Length(start, len(self.data), self._flexible, name))


def full(kind: type[Message], version: int) -> Message:
    """A message that has every field of the version, one element in each array, nothing null."""
    made = _full(kind, version)
    assert isinstance(made, Message)
    return made


def _full(kind: type[Struct], version: int) -> Struct:
    fields = [field for field in kind.FIELDS if version in field.versions]
    return kind(**{field.name: _full_value(field.type, version) for field in fields})


def _full_value(kind: FieldType, version: int) -> Any:
    if isinstance(kind, ArrayOf):
        return [_full_value(kind.element, version)]
    if not isinstance(kind, str):
        return _full(kind, version)
    others = {"bool": True, "float64": 0.5, "uuid": bytes(range(16)), "string": "name"}
    others |= {"bytes": b"bytes", "records": b"records"}
    return others.get(kind, 3)


def _default(field: Field) -> Any:
    if field.default is not MISSING:
        return field.default
    return [] if isinstance(field.type, ArrayOf) else field.type()  # type: ignore[operator]
