"""Declarations of messages: one class for all versions of a message.

    class FetchPartition(Struct):
        partition: int = int32("0+")
        current_leader_epoch: int = int32("9+", default=-1)

    class FetchRequest(Message, api_key=1, versions="0-17", flexible="12+"):
        max_wait_ms: int = int32("0+")
        ...

Versions are written as in Kafka's message JSON ("0+", "3-7"), so that a declaration can be compared
with it line by line. A field that a version lacks decodes to its default, and is not encoded. The
classes are plain and have slots, so they are cheap to import and to instantiate. On first use
`compiler` turns a declaration into straight-line code: one function per message and version.
"""

from collections.abc import Callable, Sized
from struct import error as struct_error
from typing import Any, ClassVar, Final, NamedTuple, Self, dataclass_transform

from .errors import MalformedMessage, Truncated
from .primitives import ZERO_UUID, Buffer, Writer

VERSION_MAX: Final = 32767
MISSING: Final = object()

Records = bytes | bytearray | memoryview | Sized | None
"""Record batches: a view of the received frame, bytes, or a span of a file to splice in."""


class Versions(NamedTuple):
    """A range of versions, both ends inclusive; empty if `last` < `first`."""

    first: int
    last: int

    @classmethod
    def parse(cls, spec: str) -> "Versions":
        """Parse "0+", "3-7", "4" or "none"."""
        if spec == "none":
            return cls(0, -1)
        if spec.endswith("+"):
            return cls(int(spec[:-1]), VERSION_MAX)
        first, _, last = spec.partition("-")
        return cls(int(first), int(last or first))

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.first <= version <= self.last


class ArrayOf(NamedTuple):
    """The type of an array field."""

    element: "FieldType"


FieldType = str | type["Struct"] | ArrayOf


class Field:
    """One declared field. Primitive types have their names from Kafka's message JSON."""

    __slots__ = ("default", "name", "nullable", "tag", "tagged", "type", "versions")

    def __init__(
        self,
        type: FieldType,
        versions: str,
        default: Any,
        *,
        nullable: str = "none",
        tag: int | None = None,
        tagged: str | None = None,
    ) -> None:
        self.name = ""
        self.type = type
        self.versions = Versions.parse(versions)
        self.nullable = Versions.parse(nullable)
        self.default = default
        self.tag = tag
        self.tagged = Versions.parse("none" if tag is None else tagged or versions)

    def is_inline(self, version: int) -> bool:
        """Whether this version has the field inline, in declaration order."""
        return version in self.versions and version not in self.tagged

    def is_tagged(self, version: int) -> bool:
        """Whether this version has the field in the section of tagged fields."""
        return version in self.versions and version in self.tagged


def _primitive(type: str, implicit_default: Any) -> Callable[..., Any]:
    def declare(versions: str, *, default: Any = implicit_default, **more: Any) -> Any:
        return Field(type, versions, default, **more)

    declare.__doc__ = f"Declare a field of Kafka's type {type}."
    return declare


boolean = _primitive("bool", False)
int8 = _primitive("int8", 0)
int16 = _primitive("int16", 0)
uint16 = _primitive("uint16", 0)
int32 = _primitive("int32", 0)
int64 = _primitive("int64", 0)
float64 = _primitive("float64", 0.0)
uuid = _primitive("uuid", ZERO_UUID)
string = _primitive("string", "")
binary = _primitive("bytes", b"")
records = _primitive("records", None)


def array(element: FieldType, versions: str, *, default: Any = MISSING, **more: Any) -> Any:
    """Declare an array of a primitive (by its name) or of a struct."""
    return Field(ArrayOf(element), versions, default, **more)


def struct(type: type["Struct"], versions: str, *, default: Any = MISSING, **more: Any) -> Any:
    """Declare a single nested struct."""
    return Field(type, versions, default, **more)


@dataclass_transform(kw_only_default=True)
class _StructType(type):
    """Metaclass that turns declared fields into slots and a keyword-only constructor."""

    def __new__(
        mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> "_StructType":
        fields = [value for value in namespace.values() if isinstance(value, Field)]
        for field_name in [key for key, value in namespace.items() if isinstance(value, Field)]:
            namespace.pop(field_name).name = field_name
        namespace["FIELDS"] = tuple(fields)
        declared = namespace.get("__slots__", ())
        for slot in declared:  # its default value is only for type checkers
            namespace.pop(slot, None)
        namespace["__slots__"] = (*declared, *(field.name for field in fields))
        if fields:
            namespace["__init__"] = _constructor(fields)
        return super().__new__(mcls, name, bases, namespace, **options)


def _constructor(fields: list[Field]) -> Callable[..., None]:
    parameters, body = [], ["self.tagged_fields = None"]
    scope: dict[str, Any] = {"MISSING": MISSING}
    for number, field in enumerate(fields):
        scope[f"d{number}"] = field.default
        scope[f"new{number}"] = list if isinstance(field.type, ArrayOf) else field.type
        parameters.append(f"{field.name}=d{number}")
        if field.default is MISSING:  # messages must not share lists and structs
            body.append(f"if {field.name} is MISSING: {field.name} = new{number}()")
        body.append(f"self.{field.name} = {field.name}")
    exec(f"def __init__(self, *, {', '.join(parameters)}):\n " + "\n ".join(body), scope)
    made: Callable[..., None] = scope["__init__"]
    return made


class Struct(metaclass=_StructType):
    """A declared struct. `tagged_fields` keeps the tagged fields that are not declared."""

    __slots__ = ("tagged_fields",)
    FIELDS: ClassVar[tuple[Field, ...]]
    tagged_fields: dict[int, bytes] | None = None

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in self._names()
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{field.name}={getattr(self, field.name)!r}"
            for field in self.FIELDS
            if getattr(self, field.name) != field.default
        )
        return f"{type(self).__name__}({shown})"

    def _names(self) -> list[str]:
        return ["tagged_fields", *(field.name for field in self.FIELDS)]


Decoder = Callable[[Buffer, int], tuple[Any, int]]
Encoder = Callable[[Any, Writer], None]


class _Decoders(dict[int, Decoder]):
    """Decoders by version, compiled on first use."""

    def __init__(self, cls: type["Message"]) -> None:
        self._cls = cls

    def __missing__(self, version: int) -> Decoder:
        from .compiler import compile_decoder

        decoder = self[version] = compile_decoder(self._cls, version)
        return decoder


class _Encoders(dict[int, Encoder]):
    """Encoders by version, compiled on first use."""

    def __init__(self, cls: type["Message"]) -> None:
        self._cls = cls

    def __missing__(self, version: int) -> Encoder:
        from .compiler import compile_encoder

        encoder = self[version] = compile_encoder(self._cls, version)
        return encoder


class Message(Struct):
    """A struct that is encoded on its own: a request, a response, a header."""

    __slots__ = ()
    API_KEY: ClassVar[int]
    VERSIONS: ClassVar[Versions]
    FLEXIBLE: ClassVar[Versions]
    _decoders: ClassVar[_Decoders]
    _encoders: ClassVar[_Encoders]

    def __init_subclass__(cls, *, api_key: int, versions: str, flexible: str) -> None:
        cls.API_KEY = api_key
        cls.VERSIONS = Versions.parse(versions)
        cls.FLEXIBLE = Versions.parse(flexible)
        cls._decoders = _Decoders(cls)
        cls._encoders = _Encoders(cls)

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> tuple[Self, int]:
        """Read one message at `position`; return it and the position after it.

        Records fields are views of `buffer`, valid until `release`; everything else is copied.

        Raises: Truncated, BadLength, MalformedMessage, UnsupportedVersion.
        """
        decode = cls._decoders[version]
        try:
            return decode(buffer, position)
        except (IndexError, struct_error):
            raise Truncated(f"message of {len(buffer)} bytes ends inside a field") from None
        except UnicodeDecodeError as error:
            raise MalformedMessage(f"string is not UTF-8: {error.reason}") from None

    def encode(self, version: int, out: Writer | None = None) -> Writer:
        """Append this message in `version` to `out` and return it.  Raises: UnsupportedVersion."""
        out = Writer() if out is None else out
        self._encoders[version](self, out)
        return out

    def release(self) -> None:
        """Release the views in this message, if its class has any; using one raises ValueError."""
