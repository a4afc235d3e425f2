"""The file of a journal: JSON lines of `Journal.save`, or an answer of the admin API."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final

from odradek.broker.handlers import APIS, Api
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import read_request_start

from .errors import CommandError

TOPIC_ID_BYTES: Final = 16
_Kind = tuple[type | UnionType, str]
_NUMBER: Final[_Kind] = (int, "a whole number")
_TEXT: Final[_Kind] = (str, "a text")
_TEXT_OR_NULL: Final[_Kind] = (str | None, "a text or null")
_OBJECT: Final[_Kind] = (dict, "an object")
_LIST: Final[_Kind] = (list, "a list")
_OF_ENTRY: Final[Mapping[str, _Kind]] = {
    "number": _NUMBER,
    "at_ms": _NUMBER,
    "broker": _NUMBER,
    "client_id": _TEXT_OR_NULL,
    "topics": _LIST,
    "error": _TEXT_OR_NULL,
    "faults": _LIST,
    "recording": (dict | None, "an object or null"),
}
_OF_RECORDING: Final[Mapping[str, _Kind]] = {
    "frame": _TEXT,
    "topic_ids": _OBJECT,
    "given": _OBJECT,
    "answered_before": (int | None, "a whole number or null"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A request that can be sent again."""

    number: int
    at_ms: int
    broker: int
    client_id: str | None
    topics: tuple[str, ...]
    error: str | None
    by_rule: bool
    """Whether a rule for faults acted on it."""
    api: Api
    version: int
    frame: bytes
    topic_ids: Mapping[str, str]
    given: Mapping[str, int | str]
    answered_before: int | None

    def __str__(self) -> str:
        words = [f"{self.number}", f"{self.api.name} v{self.version}"]
        words += [f"client_id={self.client_id}"] if self.client_id else []
        words += [f"topics={','.join(self.topics)}"] if self.topics else []
        return " ".join(words)


@dataclass(frozen=True, slots=True)
class Journal:
    """What a file has."""

    requests: tuple[Recorded, ...]
    """In the order in which they came."""
    without_bytes: int
    """How many have no recording: logins, and those for which there was no room."""


def read_journal(path: Path) -> Journal:
    """Read a file.  Raises: CommandError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path} is not a journal with recordings: {error}") from error
    found, without_bytes = [], 0
    try:
        for index, given in enumerate(_entries(text), 1):
            try:
                _check(given, _OF_ENTRY)
                if given["recording"] is None:
                    without_bytes += 1
                else:
                    found.append(_recorded(given, given["recording"]))
            except (ValueError, MalformedMessage) as error:
                raise ValueError(f"request {index}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path} is not a journal with recordings: {error}") from error
    found.sort(key=lambda each: each.number)
    return Journal(tuple(found), without_bytes)


def _entries(text: str) -> Iterator[Mapping[str, Any]]:
    lines = text.splitlines()
    first = json.loads(lines[0]) if lines else {}
    if isinstance(first, dict) and "requests" in first:
        answer = json.loads(text)
        _check(answer, {"requests": _LIST})
        yield from answer["requests"]
    else:
        yield from map(json.loads, lines)


def _check(given: Any, kinds: Mapping[str, _Kind]) -> None:
    """Check that it is an object with values of these kinds.  Raises: ValueError."""
    if not isinstance(given, dict):
        raise ValueError("it is not an object")
    for name, (types, noun) in kinds.items():
        if name not in given:
            raise ValueError(f"{name} is missing")
        if not isinstance(given[name], types) or isinstance(given[name], bool):
            raise ValueError(f"{name} is not {noun}")


def _recorded(given: Mapping[str, Any], recording: Mapping[str, Any]) -> Recorded:
    """A request that can be sent again.  Raises: ValueError, MalformedMessage."""
    _check(recording, _OF_RECORDING)
    ids = recording["given"]
    _check(ids, {name: _TEXT if name == "member_id" else _NUMBER for name in ids})
    if ("producer_id" in ids) != ("producer_epoch" in ids):
        raise ValueError("given has one of producer_id and producer_epoch")
    for topic_id, name in recording["topic_ids"].items():
        if len(bytes.fromhex(topic_id)) != TOPIC_ID_BYTES or not isinstance(name, str):
            raise ValueError("topic_ids are not ids and names")
    frame = b64decode(recording["frame"], validate=True)
    key, version, _ = read_request_start(frame)
    if key not in APIS:
        raise ValueError(f"there is no API with the key {key}")
    return Recorded(
        number=given["number"],
        at_ms=given["at_ms"],
        broker=given["broker"],
        client_id=given["client_id"],
        topics=tuple(map(str, given["topics"])),
        error=given["error"],
        by_rule=bool(given["faults"]),
        api=APIS[key],
        version=version,
        frame=frame,
        topic_ids=recording["topic_ids"],
        given=recording["given"],
        answered_before=recording["answered_before"],
    )
