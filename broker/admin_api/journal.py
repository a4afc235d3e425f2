"""The journal: the last requests of clients, and what was answered."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from odradek.protocol.primitives import INT64_MAX

from ..faults.rule import BadRule, api_pattern
from ..journal.journal import ENTRIES_MAX
from .controls import Controls
from .fields import TEXT, Field, Json, nullable, whole
from .problems import Problem
from .schemas import INTEGER, NULL, NUMBER, STRING, array, either, members

_TEXT_OR_NULL: Final = either(STRING, NULL)

REQUEST: Final = members(
    number=INTEGER,
    at_ms=INTEGER,
    broker=INTEGER,
    api=STRING,
    version=INTEGER,
    client_id=_TEXT_OR_NULL,
    principal=STRING,
    group=_TEXT_OR_NULL,
    transactional_id=_TEXT_OR_NULL,
    topics=array(STRING),
    size_bytes=INTEGER,
    error=_TEXT_OR_NULL,
    faults=array(STRING),
    duration_ms=either(NUMBER, NULL),
)
REQUESTS: Final = members(requests=array(REQUEST))
SHOW: Final = (
    Field(
        "api",
        nullable(TEXT),
        "Of this API, by name or key; `*` and `?` are wildcards.",
        None,
    ),
    Field("client_id", nullable(TEXT), "Only those of clients with this id, such as app*.", None),
    Field("after", whole(0, INT64_MAX), "Only those with a higher number.", 0),
    Field("limit", whole(1, ENTRIES_MAX), "At most so many, the last ones.", 1000),
)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the last requests of clients, the oldest first; the fixture's own are left out."""
    api = fields["api"]
    try:
        wanted = {**fields, "api": None if api is None else api_pattern(api)}
    except BadRule as error:
        raise Problem(400, str(error)) from None
    entries = controls.interceptor.notes.journal.requests(**wanted)
    return {"requests": [asdict(entry) for entry in entries]}


def clear(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Forget all requests."""
    controls.interceptor.notes.journal.clear()
    return {}
