"""Compiles declarations to code: one decoder and one encoder per message and version.

The generated source is what one would write by hand: adjacent fixed-size fields are read with one
`unpack_from`, short lengths take one branch, nothing is looked up by name. A decoder is
`decode(b, p) -> (struct, p)` with the buffer `b` and the position `p` in it; an encoder is
`encode(o, out)`. Reading past the end may raise IndexError or struct.error, which `Message.decode`
turns into Truncated.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from .errors import BadLength, Truncated, UnsupportedVersion
from .primitives import (
    ZERO_UUID,
    Writer,
    read_uvarint,
    write_uvarint,
)
from .schema import MISSING, ArrayOf, Decoder, Encoder, Field, FieldType, Message, Struct

FIXED: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}

STRING_BYTES_MAX: Final = 32_767
"""Compact strings could be longer, but older versions and records, which also hold them, can't."""

# An element may take one byte on the wire and hundreds in memory. This limit on array elements and
# tags is above what any real message has, and low enough to decode and answer.
ELEMENTS_MAX: Final = 500_000


def compile_decoder(cls: type[Message], version: int) -> Decoder:
    """Compile the decoder of a message.  Raises: UnsupportedVersion."""
    if version not in cls.VERSIONS:
        raise UnsupportedVersion(f"{cls.__name__} v{version}")
    return _struct_decoder(cls, version, version in cls.FLEXIBLE)


def compile_encoder(cls: type[Message], version: int) -> Encoder:
    """Compile the encoder of a message.  Raises: UnsupportedVersion."""
    if version not in cls.VERSIONS:
        raise UnsupportedVersion(f"{cls.__name__} v{version}")
    return _struct_encoder(cls, version, version in cls.FLEXIBLE)


# Shared by decoding and encoding.


class _Source:
    """The lines of a function under construction, and the objects that they refer to."""

    def __init__(self, signature: str) -> None:
        self.lines = [f"def {signature}:"]
        self.scope: dict[str, Any] = {}
        self.depth = 1
        self._structs = 0

    def add(self, *lines: str) -> None:
        self.lines += [" " * self.depth + line for line in lines]

    def refer(self, thing: Any) -> str:
        """A name by which the code can refer to `thing`."""
        name = f"x{len(self.scope)}"
        self.scope[name] = thing
        return name

    def new_struct(self) -> str:
        """A new variable for a struct, which may be nested in another one."""
        self._structs += 1
        return f"o{self._structs}"

    def compile(self, title: str) -> Callable[..., Any]:
        code = compile("\n".join(self.lines), f"<{title}>", "exec")
        exec(code, self.scope)
        name = self.lines[0].split("(")[0].removeprefix("def ")
        made: Callable[..., Any] = self.scope[name]
        return made


class _Run:
    """Adjacent fixed-size fields, to be read or written together."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.format = ">"

    def add(self, name: str, type: str) -> None:
        self.names.append(name)
        self.format += FIXED[type]

    def take(self) -> tuple[list[str], struct.Struct]:
        """Return the fields so far and their format, and start a new run."""
        names, packed = self.names, struct.Struct(self.format)
        self.names, self.format = [], ">"
        return names, packed


def _size_min(type: FieldType, version: int, flexible: bool) -> int:
    """The fewest bytes that one value takes, to check an announced count of values."""
    if isinstance(type, ArrayOf):
        return 1 if flexible else 4
    if isinstance(type, str):
        if type in FIXED:
            return struct.calcsize(">" + FIXED[type])
        return 1 if flexible else 2 if type == "string" else 4
    inline = [f for f in type.FIELDS if f.is_inline(version)]
    return sum(_size_min(f.type, version, flexible) for f in inline) + flexible


# Decoding.


_DECODING: Final = {
    "new": object.__new__,
    "uvarint": read_uvarint,
    "Truncated": Truncated,
    "BadLength": BadLength,
}


def _struct_decoder(cls: type[Struct], version: int, flexible: bool) -> Decoder:
    source = _Source("decode(b, p)")
    source.scope.update(_DECODING)
    source.add("end = len(b)", f"left = {ELEMENTS_MAX}")
    _read_struct(source, "o", cls, version, flexible)
    source.add("return o, p")
    return source.compile(f"decode {cls.__name__} v{version}")


def _read_struct(source: _Source, o: str, cls: type[Struct], version: int, flexible: bool) -> None:
    """Emit code that reads a struct into the variable `o`."""
    source.add(f"{o} = new({source.refer(cls)})", f"{o}.tagged_fields = None")
    run = _Run()
    tagged = []
    for field in cls.FIELDS:
        if not field.is_inline(version):
            source.add(f"{o}.{field.name} = {_default(source, field)}")
            tagged += [field] if field.is_tagged(version) else []
        elif isinstance(field.type, str) and field.type in FIXED:
            run.add(f"{o}.{field.name}", field.type)
        else:
            _read_run(source, run)
            nullable = version in field.nullable
            _read(source, f"{o}.{field.name}", field.type, version, flexible, nullable)
    _read_run(source, run)
    if flexible:
        _read_tags(source, o, tagged, version)


def _default(source: _Source, field: Field) -> str:
    if field.default is MISSING:
        return "[]" if isinstance(field.type, ArrayOf) else f"{source.refer(field.type)}()"
    if field.default is ZERO_UUID:
        return source.refer(ZERO_UUID)
    return repr(field.default)


def _read_run(source: _Source, run: _Run) -> None:
    if run.names:
        names, packed = run.take()
        unpack = source.refer(packed.unpack_from)
        source.add(f"{', '.join(names)}, = {unpack}(b, p)", f"p += {packed.size}")


def _read(
    source: _Source, target: str, type: FieldType, version: int, flexible: bool, nullable: bool
) -> None:
    """Emit code that reads one value into `target`."""
    if isinstance(type, ArrayOf):
        _read_length(source, 4, flexible)
        _read_array(source, target, type.element, version, flexible, nullable)
    elif not isinstance(type, str):
        if nullable:
            source.add("n = b[p]", "p += 1", f"if n > 127: {target} = None", "else:")
            source.depth += 1
        o = source.new_struct()  # inline: a call per struct would cost as much as its fields
        _read_struct(source, o, type, version, flexible)
        source.add(f"{target} = {o}")
        source.depth -= nullable
    elif type in FIXED:
        packed = struct.Struct(">" + FIXED[type])
        source.add(f"{target}, = {source.refer(packed.unpack_from)}(b, p)", f"p += {packed.size}")
    else:
        _read_length(source, 2 if type == "string" else 4, flexible)
        if type == "string" and flexible:
            source.add(f" if n > {STRING_BYTES_MAX}: raise BadLength(f'string of {{n}} bytes')")
        _read_null(source, target, nullable)
        source.add(" e = p + n", " if e > end: raise Truncated('field')")
        value = {"string": "str(b[p:e], 'utf-8')", "bytes": "bytes(b[p:e])", "records": "b[p:e]"}
        source.add(f" {target} = {value[type]}", " p = e")


def _read_length(source: _Source, size_bytes: int, flexible: bool) -> None:
    """Emit code that sets `n` to the announced length, -1 for null.

    If the lengths are compact, the caller's next lines may be more for lengths above 126.
    """
    if flexible:
        source.add("n = b[p] - 1", "p += 1", "if n > 126:")
        source.add(" n, p = uvarint(b, p - 1)", " n -= 1")
    else:
        unpack = source.refer(struct.Struct(">h" if size_bytes == 2 else ">i").unpack_from)
        source.add(f"n, = {unpack}(b, p)", f"p += {size_bytes}")


def _read_null(source: _Source, target: str, nullable: bool) -> None:
    """Emit code for negative lengths; the caller's next lines are the `else` branch."""
    if nullable:
        source.add("if n == -1:", f" {target} = None")
        source.add("elif n < 0: raise BadLength(f'length {n}')", "else:")
    else:
        source.add("if n < 0: raise BadLength(f'length {n} where null is not allowed')", "else:")


def _read_array(
    source: _Source, target: str, element: FieldType, version: int, flexible: bool, nullable: bool
) -> None:
    size_min = _size_min(element, version, flexible)
    _read_null(source, target, nullable)
    source.add(f" if n * {size_min} > end - p: raise Truncated(f'array of {{n}}')")
    source.add(" left -= n", " if left < 0: raise BadLength('too many elements')")
    if isinstance(element, str) and element in FIXED and element != "uuid":
        unpack = source.refer(struct.unpack_from)
        source.add(f" {target} = list({unpack}(f'>{{n}}{FIXED[element]}', b, p))")
        source.add(f" p += {size_min} * n")
        return
    items = f"items{source.depth}"
    source.add(f" {target} = {items} = []", " for _ in range(n):")
    source.depth += 2
    if isinstance(element, str | ArrayOf):
        item = "item"
        _read(source, item, element, version, flexible, False)
    else:
        item = source.new_struct()
        _read_struct(source, item, element, version, flexible)
    source.add(f"{items}.append({item})")
    source.depth -= 2


def _read_tags(source: _Source, o: str, tagged: list[Field], version: int) -> None:
    source.add("if b[p] == 0: p += 1", "else:", " tags = {}", " n, p = uvarint(b, p)")
    source.add(" if n * 2 > end - p: raise Truncated('tagged fields')")
    source.add(" left -= n", " if left < 0: raise BadLength('too many tagged fields')")
    source.add(" for _ in range(n):", "  tag, p = uvarint(b, p)", "  size, p = uvarint(b, p)")
    source.add("  last = p + size", "  if last > end: raise Truncated('tagged field')")
    for number, field in enumerate(tagged):
        source.add(f"  {'elif' if number else 'if'} tag == {field.tag}:")
        source.depth += 3
        nullable = version in field.nullable
        read = _value_decoder(field.type, version, nullable)
        source.add(f"{o}.{field.name}, p = {source.refer(read)}(b, p)")
        source.add("if p != last: raise BadLength('tagged field')")
        source.depth -= 3
    source.add("  else:" if tagged else "  if True:")
    source.add("   tags[tag] = bytes(b[p:last])", "   p = last")
    source.add(f" if tags: {o}.tagged_fields = tags")


def _value_decoder(type: FieldType, version: int, nullable: bool) -> Decoder:
    """Compile a decoder for the value of a tagged field."""
    source = _Source("decode(b, p)")
    source.scope.update(_DECODING)
    source.add("end = len(b)", f"left = {ELEMENTS_MAX}")
    if nullable and not isinstance(type, str | ArrayOf):
        source.add("if not b[p]: return None, p + 1")  # 0 in a tagged field, -1 elsewhere
    _read(source, "value", type, version, True, nullable)
    source.add("return value, p")
    return source.compile(f"decode tagged v{version}")


# Encoding.


def _struct_encoder(cls: type[Struct], version: int, flexible: bool) -> Encoder:
    source = _Source("encode(o, out)")
    source.scope.update(uvarint=write_uvarint, Writer=Writer)
    _write_struct(source, "o", cls, version, flexible)
    source.add("return")
    return source.compile(f"encode {cls.__name__} v{version}")


def _write_struct(source: _Source, o: str, cls: type[Struct], version: int, flexible: bool) -> None:
    """Emit code that writes the struct in the variable `o`."""
    run = _Run()
    tagged = []
    for field in cls.FIELDS:
        if not field.is_inline(version):
            tagged += [field] if field.is_tagged(version) else []
        elif isinstance(field.type, str) and field.type in FIXED:
            run.add(f"{o}.{field.name}", field.type)
        else:
            _write_run(source, run)
            nullable = version in field.nullable
            _write(source, f"{o}.{field.name}", field.type, version, flexible, nullable)
    _write_run(source, run)
    if flexible:
        _write_tags(source, o, tagged, version)


def _write_run(source: _Source, run: _Run) -> None:
    if run.names:
        names, packed = run.take()
        source.add(f"out += {source.refer(packed.pack)}({', '.join(names)})")


def _write(
    source: _Source, value: str, type: FieldType, version: int, flexible: bool, nullable: bool
) -> None:
    """Emit code that writes one value."""
    if not isinstance(type, str | ArrayOf):
        if nullable:
            source.add(f"if {value} is None: out.append(255)", "else:", " out.append(1)")
            source.depth += 1
        _write_struct(source, value, type, version, flexible)
        source.depth -= nullable
        return
    if isinstance(type, str) and type in FIXED:
        source.add(f"out += {source.refer(struct.Struct('>' + FIXED[type]).pack)}({value})")
        return
    source.add(f"v = {value}")
    size_bytes = 2 if type == "string" else 4
    if nullable or type == "records":
        null = b"\0" if flexible else b"\xff" * size_bytes
        source.add(f"if v is None: out += {null!r}", "else:")
        source.depth += 1
    if type == "string":
        source.add("v = v.encode()")
    _write_length(source, size_bytes, flexible)
    if isinstance(type, ArrayOf):
        _write_array(source, type.element, version, flexible)
    elif type == "records":
        source.add("if isinstance(v, (bytes, bytearray, memoryview)): out += v")
        source.add("else: out.splice(v)")
    else:
        source.add("out += v")
    source.depth -= nullable or type == "records"


def _write_length(source: _Source, size_bytes: int, flexible: bool) -> None:
    if flexible:
        source.add("n = len(v) + 1", "if n < 128: out.append(n)", "else: uvarint(out, n)")
    else:
        pack = source.refer(struct.Struct(">h" if size_bytes == 2 else ">i").pack)
        source.add(f"out += {pack}(len(v))")


def _write_array(source: _Source, element: FieldType, version: int, flexible: bool) -> None:
    if isinstance(element, str) and element in FIXED and element != "uuid":
        source.add(f"out += {source.refer(struct.pack)}(f'>{{len(v)}}{FIXED[element]}', *v)")
        return
    item = f"item{source.depth}"
    source.add(f"for {item} in v:")
    source.depth += 1
    _write(source, item, element, version, flexible, False)
    source.depth -= 1


def _write_tags(source: _Source, o: str, tagged: list[Field], version: int) -> None:
    """Emit code that writes the tagged fields, by rising tag, without those at their default."""
    differs = {field: _differs(source, f"{o}.{field.name}", field) for field in tagged}
    any_tags = " or ".join([f"{o}.tagged_fields", *differs.values()])
    source.add(f"if not ({any_tags}): out.append(0)", "else:")
    source.depth += 1
    source.add(f"tags = dict({o}.tagged_fields or {{}})")
    for field in tagged:
        source.add(f"if {differs[field]}:")
        source.depth += 1
        source.add("part = Writer()")
        nullable = version in field.nullable
        _write_into_part(source, f"{o}.{field.name}", field, version, nullable)
        source.add(f"tags[{field.tag}] = part")
        source.depth -= 1
    source.add("uvarint(out, len(tags))", "for tag in sorted(tags):")
    source.add(" part = tags[tag]", " uvarint(out, tag)", " uvarint(out, len(part))")
    source.add(" out += part")
    source.depth -= 1


def _differs(source: _Source, value: str, field: Field) -> str:
    """An expression for whether a field differs from its default, without creating the default."""
    if field.default is MISSING and isinstance(field.type, ArrayOf):
        return f"{value} is None or {value}"
    if field.default is not MISSING or not isinstance(field.type, type):
        return f"{value} != {_default(source, field)}"
    inner = [_differs(source, f"{value}.{f.name}", f) for f in field.type.FIELDS]
    return " or ".join([*inner, f"{value}.tagged_fields"])


def _write_into_part(
    source: _Source, value: str, field: Field, version: int, nullable: bool
) -> None:
    inner = _Source("encode(value, out)")
    inner.scope.update(source.scope)
    _write(inner, "value", field.type, version, True, nullable)
    source.add(f"{source.refer(inner.compile('encode tagged'))}({value}, part)")
