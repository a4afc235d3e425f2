"""Client quotas: their entities, their kinds, where they are stored, and which ones match.

An entity is a user, a client id, both, or an address. Each of its parts is a name or None, the
default for those that have no quota of their own.

Source: how Kafka 3.9.2 in ZooKeeper mode validates, stores and filters them (KIP-546, KIP-612).
"""

import math
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from enum import IntEnum
from typing import Final, NamedTuple
from urllib.parse import quote, unquote_plus

from odradek.protocol.errors import ErrorCode, Refused
from odradek.protocol.primitives import INT32_MAX, INT64_MAX

Entity = Mapping[str, str | None]
"""Name or default of each part, by its type."""

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)
FOLDERS: Final = {USER: "users", CLIENT_ID: "clients", IP: "ips"}
"""The folders below /config that hold the entities."""

DEFAULT_NAME: Final = "<default>"
_ADDRESS: Final = re.compile(r"(?:[0-9]{1,10}\.){0,3}[0-9]{1,10}")
_BYTE_MAX: Final = 255
_NEARLY: Final = 1e-6
_PLAIN_MIN: Final = 1e-3
_PLAIN_END: Final = 1e7


class Kind(IntEnum):
    """The type of a quota's values: the number is the largest one; 0: any number is allowed."""

    DOUBLE = 0
    INT = INT32_MAX
    LONG = INT64_MAX


USER_QUOTAS: Final = {
    "producer_byte_rate": Kind.LONG,
    "consumer_byte_rate": Kind.LONG,
    "request_percentage": Kind.DOUBLE,
    "controller_mutation_rate": Kind.DOUBLE,
}
IP_QUOTAS: Final = {"connection_creation_rate": Kind.INT}


class Change(NamedTuple):
    """Set a quota; None removes it."""

    key: str
    value: float | None


class MatchType(IntEnum):
    """How a part of an entity is matched."""

    EXACT = 0
    DEFAULT = 1
    ANY = 2


class Component(NamedTuple):
    """What a part of an entity must be."""

    match_type: MatchType
    name: str | None

    def admits(self, name: str | None) -> bool:
        """Whether a part with this name, or the default, matches."""
        if self.match_type == MatchType.ANY:
            return True
        return name == (self.name if self.match_type == MatchType.EXACT else None)


# Entities and where they are stored.


def entity_path(entity: Entity) -> str:
    """The path of an entity's quotas below /config, as config changes name it.

    Raises: Refused (INVALID_REQUEST).
    """
    if not entity:
        raise _invalid("an entity has at least one part")
    for entity_type, name in entity.items():
        if entity_type not in ENTITY_TYPES:
            raise _invalid(f"{entity_type!r} is no type of entity that has quotas")
        if name in ("", ".", ".."):
            raise _invalid(f"{name!r} is no name for a {entity_type}")
    if IP in entity:
        if len(entity) > 1:
            raise _invalid("an ip does not go together with a user or a client-id")
        _check_address(entity[IP])
    parts = [f"{FOLDERS[t]}/{encode_name(entity[t])}" for t in ENTITY_TYPES if t in entity]
    return "/".join(parts)


def entity_of(path: str) -> Entity | None:
    """The entity whose quotas are at this path below /config; None: no entity has this path."""
    names = {folder: entity_type for entity_type, folder in FOLDERS.items()}
    parts = path.split("/")
    if len(parts) % 2:
        return None
    folders = parts[::2]
    if len(folders) > 1 and folders != [FOLDERS[USER], FOLDERS[CLIENT_ID]]:
        return None
    if not all(folder in names for folder in folders):
        return None
    return {
        names[folder]: decode_name(name) for folder, name in zip(folders, parts[1::2], strict=True)
    }


def _check_address(address: str | None) -> None:
    """Check an IPv4 address of one to four numbers; the last one fills all remaining bytes."""
    if address is None:
        return
    *first, last = address.split(".")
    if _ADDRESS.fullmatch(address) is None or any(int(number) > _BYTE_MAX for number in first):
        raise _invalid(f"{address!r} is no IPv4 address")
    if int(last) >= 256 ** (4 - len(first)):
        raise _invalid(f"{address!r} is no IPv4 address")


def encode_name(name: str | None) -> str:
    """The node of a part's name: URL-encoded, and without characters that are special in JMX."""
    return DEFAULT_NAME if name is None else quote(name, safe="").replace("~", "%7E")


def decode_name(node: str) -> str | None:
    """The name of a part by its node."""
    return None if node == DEFAULT_NAME else unquote_plus(node)


# Values.


def changed(config: Mapping[str, str], entity: Entity, changes: Iterable[Change]) -> dict[str, str]:
    """An entity's config after some changes; entries that are not quotas stay.

    To remove one of those is no error and has no effect, as a user's passwords are among them: to
    change quotas needs a smaller right than to change passwords.

    Raises: Refused (INVALID_REQUEST).
    """
    kinds = IP_QUOTAS if IP in entity else USER_QUOTAS
    result = dict(config)
    for key, value in changes:
        if key in kinds and value is not None:
            result[key] = _encode_value(key, value, kinds[key])
        elif key in kinds:
            result.pop(key, None)
        elif value is not None:
            raise _invalid(f"{key!r} is no quota of {' and '.join(entity)}")
    return result


def _encode_value(key: str, value: float, kind: Kind) -> str:
    if math.isnan(value):
        raise _invalid(f"{key} is not a number")
    if kind is Kind.DOUBLE:
        return java_double(value)
    # As in Kafka: a value just below a whole number counts as that number, and a negative one never
    # becomes a whole number.
    whole = int(min(max(value + _NEARLY, -float(kind) - 1), float(kind)))
    if abs(float(whole) - value) > _NEARLY:
        raise _invalid(f"{key} is {value}, not a whole number from 0 to {kind.value}")
    return str(min(whole, kind.value))


def java_double(value: float) -> str:
    """A number as Java writes it."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or _PLAIN_MIN <= abs(value) < _PLAIN_END:
        return repr(value)
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    first, *rest = map(str, digits)
    power = int(exponent) + len(rest)
    return f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{power}"


def quotas_in(config: Mapping[str, str], entity: Entity) -> dict[str, float]:
    """The quotas in an entity's config, without other entries and values that are no numbers.

    Kafka's brokers accept and store `NaN`, which then limits nobody.
    """
    kinds = IP_QUOTAS if IP in entity else USER_QUOTAS
    quotas = {}
    for key in kinds.keys() & config.keys():
        try:
            value = float(config[key])
        except ValueError:
            continue
        if not math.isnan(value):
            quotas[key] = value
    return dict(sorted(quotas.items()))


# Filters.


def parse_components(
    components: Iterable[tuple[str, int, str | None]],
) -> dict[str, Component]:
    """The filter, by type of part, from (type, match type, name) triples.

    Raises: Refused (INVALID_REQUEST, UNSUPPORTED_VERSION).
    """
    parsed: dict[str, Component] = {}
    for entity_type, match_type, name in components:
        if not 0 <= match_type < len(MatchType):
            raise _invalid(f"{match_type} is no way to match")
        if match_type == MatchType.EXACT and name is None:
            raise _invalid("an exact match needs a name")
        if not entity_type:
            raise _invalid("a component has no type")
        if entity_type not in ENTITY_TYPES:
            raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"no entity has a {entity_type!r}")
        if entity_type in parsed:
            raise _invalid(f"{entity_type} is asked for twice")
        parsed[entity_type] = Component(MatchType(match_type), name)
    if IP in parsed and len(parsed) > 1:
        raise _invalid("an ip does not go together with a user or a client-id")
    return parsed


def matches(entity: Entity, components: Mapping[str, Component], *, strict: bool) -> bool:
    """Whether an entity has all requested parts; `strict`: and no others."""
    if strict and len(entity) > len(components):
        return False
    return all(
        entity_type in entity and component.admits(entity[entity_type])
        for entity_type, component in components.items()
    )


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)
