"""Responses with errors: whole ones, and errors in parts of a response.

An element with an error has only its name and the error, and offsets and ids that say "none", as in
Kafka's error responses.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from odradek.protocol.errors import ErrorCode
from odradek.protocol.schema import Message, Struct

from ..handlers import Api
from .answer_fields import elements
from .targets import RESOURCE_IS_TOPIC, Kind, Level, Path, Target, TopicName

NONE_BY_FIELD: Final = {
    "base_offset": -1,
    "committed_offset": -1,
    "high_watermark": -1,
    "leader_id": -1,
    "low_watermark": -1,
    "node_id": -1,
    "port": -1,
    "producer_epoch": -1,
    "producer_id": -1,
}
"""What Kafka answers beside an error, where that is not the field's default."""


def refused_whole(api: Api, request: Message, version: int, error: ErrorCode) -> Message:
    """Kafka's answer to a request that fails as a whole."""
    response = api.refuse(request, version, error)
    if response is None:  # only requests of brokers are refused so
        response = api.response(error_code=error)
    _say_none(response)
    return response


def add_errors(
    response: Struct,
    path: Path,
    targets: Iterable[Target],
    error: ErrorCode,
    version: int,
) -> None:
    """Add an element for each target, with its error; `path` ends at the list that has it.

    A topic without partitions has no element where errors are at partitions.
    """
    for target in targets:
        if any(_is_nameless(target, level.kind) for level in path):
            continue
        holder: Any = response
        for level in path:
            holder = _found_or_made(holder, level, target)
        _fail(holder, path[-1], error, version)


def put_errors(
    response: Struct,
    path: Path,
    selects: Callable[[Target], bool],
    error: ErrorCode,
    version: int,
    base: Target,
    topic_name: TopicName,
) -> None:
    """Replace each selected element by its error; `path` ends at the list that has it."""
    for target, element in elements(response, path, base, topic_name):
        if selects(target):
            level, declared = path[-1], type(element)
            _let_go(element)
            blank = declared()
            for field in declared.FIELDS:
                if field.name not in _kept(level):
                    setattr(element, field.name, getattr(blank, field.name))
            _fail(element, level, error, version)


def _kept(level: Level) -> tuple[str, ...]:
    return (*level.names, "resource_type")


def _let_go(element: Struct) -> None:
    """Release the records of an element that will not be sent."""
    release = getattr(getattr(element, "records", None), "release", None)
    if release is not None:
        release()


def _found_or_made(holder: Struct, level: Level, target: Target) -> Any:
    names = {name: _name_in(target, level.kind, name) for name in level.names}
    listed = getattr(holder, level.field)
    for element in listed:
        if all(getattr(element, name) == value for name, value in names.items()):
            return element
    assert level.element is not None
    if "resource_name" in names:
        names["resource_type"] = RESOURCE_IS_TOPIC
    listed.append(level.element(**names))
    return listed[-1]


def _is_nameless(target: Target, kind: Kind) -> bool:
    return kind is not Kind.OTHER and _name_in(target, kind, "") is None


def _name_in(target: Target, kind: Kind, field: str) -> Any:
    """What the field of an element about `target` is."""
    if field == "topic_id":
        return target.topic_id
    match kind:
        case Kind.TOPIC:
            return target.topic or ""
        case Kind.PARTITION:
            return target.partition
        case Kind.GROUP:
            return target.group
        case Kind.TRANSACTIONAL_ID:
            return target.transactional_id
    return target.group if target.group is not None else target.transactional_id


def _fail(element: Struct, level: Level, error: ErrorCode, version: int) -> None:
    setattr(element, level.code, error)
    _say_none(element)
    for field in element.FIELDS:
        if field.name == "error_message" and version in field.nullable:
            element.error_message = None  # type: ignore[attr-defined]


def _say_none(struct: Struct) -> None:
    for field in struct.FIELDS:
        if field.name in NONE_BY_FIELD:
            setattr(struct, field.name, NONE_BY_FIELD[field.name])
