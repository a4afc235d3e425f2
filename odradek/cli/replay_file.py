"""The file of a journal: JSON lines of `Journal.save`, or an answer of the admin API."""

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from odradek.broker.handlers import APIS, Api
from odradek.protocol.errors import MalformedMessage
from odradek.protocol.framing import read_request_start

from .errors import CommandError


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
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"cannot read {path}: {error}") from error
    found, without_bytes = [], 0
    try:
        for given in _entries(text):
            if given["recording"] is None:
                without_bytes += 1
            else:
                found.append(_recorded(given, given["recording"]))
    except (ValueError, KeyError, TypeError, AttributeError, MalformedMessage) as error:
        raise CommandError(f"{path} is not a journal with recordings: {error!r}") from error
    found.sort(key=lambda each: each.number)
    return Journal(tuple(found), without_bytes)


def _entries(text: str) -> Iterator[Mapping[str, Any]]:
    lines = text.splitlines()
    first = json.loads(lines[0]) if lines else {}
    if "requests" in first:
        yield from json.loads(text)["requests"]
    else:
        yield from map(json.loads, lines)


def _recorded(given: Mapping[str, Any], recording: Mapping[str, Any]) -> Recorded:
    frame = b64decode(recording["frame"], validate=True)
    key, version, _ = read_request_start(frame)
    return Recorded(
        number=given["number"],
        at_ms=given["at_ms"],
        broker=given["broker"],
        client_id=given["client_id"],
        topics=tuple(given["topics"]),
        error=given["error"],
        by_rule=bool(given["faults"]),
        api=APIS[key],
        version=version,
        frame=frame,
        topic_ids=recording["topic_ids"],
        given=recording["given"],
        answered_before=recording["answered_before"],
    )
