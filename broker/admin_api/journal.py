"""The journal: the last requests of clients, and what was answered."""

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from odradek.protocol.primitives import INT64_MAX

from ..faults.rule import BadRule, api_pattern
from ..journal.journal import ENTRIES_MAX, Entry
from .controls import Controls
from .fields import BOOLEAN, TEXT, Field, Json, nullable, whole
from .problems import Problem
from .schemas import INTEGER, NULL, NUMBER, STRING, array, either, mapping, members

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
    answer_size_bytes=either(INTEGER, NULL),
    error=_TEXT_OR_NULL,
    faults=array(STRING),
    duration_ms=either(NUMBER, NULL),
    recording=either(
        NULL,
        members(
            frame=STRING,
            topic_ids=mapping(STRING),
            given=mapping(either(INTEGER, STRING)),
            answered_before=either(INTEGER, NULL),
        ),
    ),
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
    Field(
        "recordings",
        BOOLEAN,
        "With what `odradek replay` needs: odradek.journal.frames.bytes must be set.",
        False,
    ),
    Field("limit", whole(1, ENTRIES_MAX), "At most so many, the last ones.", 1000),
)


def show(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """List the last requests of clients, the oldest first; the fixture's own are left out."""
    api = fields["api"]
    with_recordings = fields["recordings"]
    if with_recordings and not controls.interceptor.notes.journal.records:
        raise Problem(409, "nothing is recorded: odradek.journal.frames.bytes is 0")
    try:
        wanted = {name: fields[name] for name in ("client_id", "after", "limit")}
        wanted["api"] = None if api is None else api_pattern(api)
    except BadRule as error:
        raise Problem(400, str(error)) from None
    entries = controls.interceptor.notes.journal.requests(**wanted)
    return {"requests": [_shown(entry, with_recordings=with_recordings) for entry in entries]}


def _shown(entry: Entry, *, with_recordings: bool) -> Json:
    shown = {**asdict(replace(entry, recording=None))}
    if with_recordings and entry.recording is not None:
        frame = b64encode(entry.recording.frame).decode()
        shown["recording"] = {**asdict(entry.recording), "frame": frame}
    return shown


def clear(controls: Controls, path: Mapping[str, str], fields: Mapping[str, Any]) -> Json:
    """Forget all requests."""
    controls.interceptor.notes.journal.clear()
    return {}
