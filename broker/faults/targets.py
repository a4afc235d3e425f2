"""What messages are about: topics, partitions, groups and transactional ids.

This is derived from the declarations of the messages, so it holds for every API and version. A
message names things in its own fields (`group_id`) or in lists, which may be nested: Produce has a
list of topics, each with a list of partitions. A *path* is these lists, the outermost first. A
*target* is one thing that a message is about, such as one partition of a topic.
"""

from collections.abc import Callable, Container, Iterator
from copy import copy
from enum import Enum, auto
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar

from odradek.protocol.primitives import ZERO_UUID
from odradek.protocol.schema import ArrayOf, Field, Struct

StructT = TypeVar("StructT", bound=Struct)
TopicName = Callable[[bytes], str | None]
"""The name of the topic with this id; None: there is none."""

RESOURCE_IS_TOPIC: Final = 2
KEY_IS_TRANSACTIONAL_ID: Final = 1


class Kind(Enum):
    """What the elements of a list are."""

    TOPIC = auto()
    PARTITION = auto()
    GROUP = auto()
    TRANSACTIONAL_ID = auto()
    KEY = auto()
    """A group or a transactional id (FindCoordinator)."""
    OTHER = auto()


class Target(NamedTuple):
    """One thing that a message is about; None: it does not say, or it means all."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transactional_id: str | None = None
    topic_id: bytes = ZERO_UUID


class Level(NamedTuple):
    """A list on a path."""

    field: str
    """Its name in the enclosing struct."""
    kind: Kind
    element: type[Struct] | None
    """None: the elements are plain names or numbers."""
    names: tuple[str, ...]
    """The fields of an element that identify it."""
    code: str
    """The field of an element that has its error code, or nothing."""


Path = tuple[Level, ...]

_KINDS: Final = {
    "topic": Kind.TOPIC,
    "topic_name": Kind.TOPIC,
    "topic_id": Kind.TOPIC,
    "name": Kind.TOPIC,  # in some lists only
    "resource_name": Kind.TOPIC,
    "partition": Kind.PARTITION,
    "partition_index": Kind.PARTITION,
    "partition_id": Kind.PARTITION,
    "index": Kind.PARTITION,
    "group_id": Kind.GROUP,
    "transactional_id": Kind.TRANSACTIONAL_ID,
    "key": Kind.KEY,
}
_PLAIN_KINDS: Final = {
    "topic_names": Kind.TOPIC,
    "subscribed_topic_names": Kind.TOPIC,
    "partitions": Kind.PARTITION,
    "partition_indexes": Kind.PARTITION,
    "groups": Kind.GROUP,
    "group_ids": Kind.GROUP,
    "groups_names": Kind.GROUP,
    "transactional_ids": Kind.TRANSACTIONAL_ID,
    "coordinator_keys": Kind.KEY,
}
_OF_WHOLE_MESSAGES: Final = {
    "group_id": Kind.GROUP,
    "transactional_id": Kind.TRANSACTIONAL_ID,
    "v3_and_below_transactional_id": Kind.TRANSACTIONAL_ID,
    "key": Kind.KEY,
}
_LISTS_OF_NAMED_TOPICS: Final = ("responses", "results")
"""Beside those that have "topic" in their own name."""
_KEY_LISTS: Final = ("coordinators",)
# Which replicas partitions get; what a session forgets; ACLs below the filter that matches them.
_LEFT_OUT: Final = frozenset({"assignments", "forgotten_topics_data", "matching_acls"})
CODES: Final = ("error_code", "partition_error_code")
"""The fields that have error codes."""


@cache
def path_of(message: type[Struct], version: int) -> Path:
    """The lists in which a message names things; empty if it has none."""
    return _path_in(message, version, in_topic=False)


def _path_in(struct: type[Struct], version: int, *, in_topic: bool) -> Path:
    for field in struct.FIELDS:
        if version not in field.versions or field.name in _LEFT_OUT:
            continue
        if not isinstance(field.type, ArrayOf):
            continue
        element = field.type.element
        level = _level_of(field, element, version, in_topic=in_topic)
        inner: Path = ()
        if level.element is not None and level.kind is not Kind.PARTITION:
            inner = _path_in(level.element, version, in_topic=level.kind is Kind.TOPIC)
        if level.kind is not Kind.OTHER or inner:
            return (level, *inner)
    return ()


def _level_of(field: Field, element: Any, version: int, *, in_topic: bool) -> Level:
    if isinstance(element, str | ArrayOf):
        kind = _PLAIN_KINDS.get(field.name, Kind.OTHER)
        if (kind is Kind.PARTITION) != in_topic:
            kind = Kind.OTHER
        return Level(field.name, kind, None, (), "")
    present = [each.name for each in element.FIELDS if version in each.versions]
    kind, names = Kind.OTHER, []
    for name in present:
        found = _KINDS.get(name, Kind.OTHER)
        if found is Kind.OTHER or (found is Kind.PARTITION) != in_topic:
            continue
        if name == "name" and not _lists_topics(field.name):
            continue
        if found is Kind.KEY and field.name not in _KEY_LISTS:
            continue
        if kind in (Kind.OTHER, found):
            kind = found
            names.append(name)
    code = next((name for name in CODES if name in present), "") if names else ""
    return Level(field.name, kind, element, tuple(names), code)


def _lists_topics(field: str) -> bool:
    return "topic" in field or field in _LISTS_OF_NAMED_TOPICS


def kinds_of(message: type[Struct], version: int) -> set[Kind]:
    """What a message names, in its own fields or in lists."""
    kinds = {level.kind for level in path_of(message, version)}
    for field in message.FIELDS:
        if version in field.versions and field.name in _OF_WHOLE_MESSAGES:
            kinds.add(_OF_WHOLE_MESSAGES[field.name])
    return kinds


def base_of(message: Struct, version: int) -> Target:
    """What the fields of a message itself name, for everything in it."""
    target = Target()
    for field in message.FIELDS:
        kind = _OF_WHOLE_MESSAGES.get(field.name)
        if kind is not None and version in field.versions:
            target = _with_name(target, kind, getattr(message, field.name), message)
    return target


def targets_of(message: Struct, version: int, topic_name: TopicName) -> list[Target]:
    """Everything that a message names; the message as a whole if it names nothing."""
    base, path = base_of(message, version), path_of(type(message), version)
    found = [target for target, _, _ in walk(message, path, base, topic_name)] if path else []
    return found or [base]


def walk(
    holder: Struct, path: Path, target: Target, topic_name: TopicName, depth: int = 0
) -> Iterator[tuple[Target, Any, int]]:
    """The innermost elements: what each is about, the element, the index of its level.

    An element whose own list is empty is an innermost one.
    """
    level, inner = path[0], path[1:]
    for element in getattr(holder, level.field) or ():
        named = target_of(level, element, target, holder, topic_name)
        if inner and getattr(element, inner[0].field):
            yield from walk(element, inner, named, topic_name, depth + 1)
        else:
            yield named, element, depth


def without(
    holder: StructT,
    path: Path,
    target: Target,
    topic_name: TopicName,
    taken: Container[Target],
) -> StructT | None:
    """A copy of a message that lacks what is `taken`; None if nothing is left of it."""
    level, inner = path[0], path[1:]
    kept: list[Any] = []
    for element in getattr(holder, level.field) or ():
        named = target_of(level, element, target, holder, topic_name)
        if inner and getattr(element, inner[0].field):
            rest = without(element, inner, named, topic_name, taken)
            if rest is not None:
                kept.append(rest)
        elif named not in taken:
            kept.append(element)
    if not kept:
        return None
    changed = copy(holder)
    setattr(changed, level.field, kept)
    return changed


def target_of(
    level: Level, element: Any, target: Target, holder: Struct, topic_name: TopicName
) -> Target:
    """What an element is about, if the list that has it is about `target`."""
    if level.element is None:
        return _with_name(target, level.kind, element, holder)
    for name in level.names:
        value = getattr(element, name)
        if name == "topic_id":
            if value != ZERO_UUID:
                topic = target.topic or topic_name(value)
                target = target._replace(topic_id=value, topic=topic)
        elif name != "resource_name" or element.resource_type == RESOURCE_IS_TOPIC:
            target = _with_name(target, level.kind, value, holder)
    return target


def _with_name(target: Target, kind: Kind, value: Any, holder: Struct) -> Target:
    if value is None or (value == "" and kind is not Kind.GROUP):
        return target
    match kind:
        case Kind.TOPIC:
            return target._replace(topic=value)
        case Kind.PARTITION:
            return target._replace(partition=value)
        case Kind.GROUP:
            return target._replace(group=value)
        case Kind.TRANSACTIONAL_ID:
            return target._replace(transactional_id=value)
        case Kind.KEY:
            return _with_key(target, value, getattr(holder, "key_type", None))
    return target


def _with_key(target: Target, key: str, key_type: int | None) -> Target:
    """A response does not repeat the type of its keys: then each may be either."""
    if key_type == KEY_IS_TRANSACTIONAL_ID:
        return target._replace(transactional_id=key)
    if key_type is None:
        return target._replace(group=key, transactional_id=key)
    return target._replace(group=key)
