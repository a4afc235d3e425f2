"""`Setting`, the declaration of one setting: how it is parsed, checked and shown.

A declaration has the setting's name in Kafka, its kind, default, bounds and meaning.  The typed
attribute (`config.num_partitions`), the check of user input, the DescribeConfigs response and
docs/configuration.md are all derived from it.
"""

from collections.abc import Callable
from typing import Final, Generic, Self, TypeVar, overload

Value = bool | int | float | str | tuple[str, ...] | None

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

INT16_MAX: Final = (1 << 15) - 1
INT32_MAX: Final = (1 << 31) - 1
INT64_MAX: Final = (1 << 63) - 1


class ConfigError(Exception):
    """A setting is invalid; the text is one sentence for the user."""


class NotBuilt(ConfigError):
    """The value is valid in Kafka, but has no effect here yet."""


class Kind(Generic[T_co]):
    """A type of Kafka's `ConfigDef`.

    `code` is its number in DescribeConfigs.  `parse` takes text without surrounding blanks and may
    raise ValueError; `noun` describes valid values.
    """

    __slots__ = ("code", "name", "noun", "parse")

    def __init__(self, name: str, code: int, noun: str, parse: Callable[[str], T_co]) -> None:
        self.name = name
        self.code = code
        self.noun = noun
        self.parse = parse

    @property
    def or_none(self) -> "Kind[T_co | None]":
        """The same kind for a setting that may be None (unset)."""
        return Kind(self.name, self.code, self.noun, self.parse)


def _boolean(text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError
    return lowered == "true"


def _whole(bound: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        digits = text[1:] if text[:1] in ("-", "+") else text
        if not (digits.isascii() and digits.isdigit() and len(digits) < 40):
            raise ValueError
        value = int(text)
        if not -bound - 1 <= value <= bound:
            raise ValueError
        return value

    return parse


def _double(text: str) -> float:
    value = float(text)
    if "_" in text or value != value:  # underscores, which only Python allows, and NaN
        raise ValueError
    return value


def _list(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if text else ()


BOOLEAN: Final = Kind("boolean", 1, "true or false", _boolean)
STRING: Final = Kind("string", 2, "text", str)
INT: Final = Kind("int", 3, "a whole number of 32 bits", _whole(INT32_MAX))
SHORT: Final = Kind("short", 4, "a whole number of 16 bits", _whole(INT16_MAX))
LONG: Final = Kind("long", 5, "a whole number of 64 bits", _whole(INT64_MAX))
DOUBLE: Final = Kind("double", 6, "a number", _double)
LIST: Final = Kind("list", 7, "a list with commas", _list)
CLASS: Final = Kind("class", 8, "the name of a class", str)
PASSWORD: Final = Kind("password", 9, "text", str)


def text_of(value: Value) -> str | None:
    """A value as Kafka writes it in responses: true, 1.0E9, a,b."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _java_double(value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _java_double(value: float) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    sign = "-" if value < 0 else ""
    if abs(value) == float("inf"):
        return f"{sign}Infinity"
    mantissa, _, exponent = repr(abs(value)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    power = int(exponent or 0) + len(whole) - 1
    if whole == "0":
        power -= 1 + len(fraction) - len(fraction.lstrip("0"))
    return f"{sign}{digits[0]}.{digits[1:].rstrip('0') or '0'}E{power}"


class Setting(Generic[T_co]):
    """One setting; in a class body, the typed attribute for its value.

    A configuration object has the values in its own `__dict__` under the same attribute names.
    Python finds them there before it calls this descriptor, so reading one is a plain attribute
    access.
    """

    __slots__ = (
        "at_least",
        "at_most",
        "attribute",
        "built",
        "check",
        "choices",
        "default",
        "doc",
        "kafka_default",
        "kind",
        "name",
        "refused_because",
    )

    def __init__(
        self,
        name: str,
        kind: Kind[T_co],
        default: T_co,
        doc: str,
        *,
        at_least: float | None = None,
        at_most: float | None = None,
        choices: tuple[str, ...] = (),
        built: tuple[Value, ...] = (),
        check: Callable[[str], str | None] | None = None,
        kafka_default: str = "",
        refused_because: str = "",
    ) -> None:
        """Declare a setting.

        `choices`: the valid texts (for a list, of each item).  `built`: the values that work so
        far.  `check`: takes the text; returns what is allowed if it is invalid, else None.
        `kafka_default`: Kafka's default, if different.  `refused_because`: for a setting that is
        not built, why it would be dangerous to run without it.
        """
        self.name = name
        self.kind = kind
        self.default = default
        self.doc = doc
        self.at_least = at_least
        self.at_most = at_most
        self.choices = choices
        self.built = built
        self.check = check
        self.kafka_default = kafka_default
        self.refused_because = refused_because
        self.attribute = name.replace(".", "_")

    @overload
    def __get__(self, config: None, owner: type) -> Self: ...
    @overload
    def __get__(self, config: object, owner: type) -> T_co: ...
    def __get__(self, config: object, owner: type) -> Self | T_co:
        if config is None:
            return self
        raise AttributeError(self.name)

    @property
    def is_sensitive(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind.code == PASSWORD.code

    def parse(self, text: str, origin: str = "") -> T_co:
        """Parse and check a text.

        Raises: ConfigError, NotBuilt; their text includes `origin`, the source, if given.
        """
        text = text.strip()
        shown = "" if self.is_sensitive else f"={text}"
        where = f" ({origin})" if origin else ""
        fault = self._fault(text)
        if fault is not None:
            raise ConfigError(f"{self.name}{shown}{where} {fault}")
        value = self.kind.parse(text)
        if self.built and value not in self.built:
            raise NotBuilt(
                f"{self.name}{shown}{where} is not built yet: only {self.built_text()} is"
            )
        return value

    def _fault(self, text: str) -> str | None:
        try:
            value = self.kind.parse(text)
        except ValueError:
            return f"is not allowed: it must be {self.allowed()}"
        items = value if isinstance(value, tuple) else (value,)
        if self.choices and any(item not in self.choices for item in items):
            return f"is not allowed: it must be {self.allowed()}"
        if isinstance(value, int | float) and not isinstance(value, bool):
            too_small = self.at_least is not None and value < self.at_least
            if too_small or (self.at_most is not None and value > self.at_most):
                return f"is not allowed: it must be {self.allowed()}"
        wanted = self.check(text) if self.check else None
        return None if wanted is None else f"is not allowed: it must be {wanted}"

    def allowed(self) -> str:
        """The valid values, as the end of a sentence that begins with "it must be"."""
        if self.choices:
            several = "a list of " if self.kind.code == LIST.code else "one of "
            return several + ", ".join(self.choices)
        if self.at_least is not None and self.at_most is not None:
            return f"{self.kind.noun} from {self.at_least} to {self.at_most}"
        if self.at_least is not None:
            return f"{self.kind.noun}, at least {self.at_least}"
        return self.kind.noun

    def built_text(self) -> str:
        """The values that work so far."""
        return ", ".join(str(text_of(value)) for value in self.built)


def declared_in(owner: type) -> dict[str, Setting[Value]]:
    """The settings that a class body declares, by name, in order."""
    found = [value for value in vars(owner).values() if isinstance(value, Setting)]
    return {setting.name: setting for setting in found}
